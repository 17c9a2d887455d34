"""Every record of a store, and every derived file, looked at and counted; nothing is changed.

What a kill leaves and the next start puts right is told apart from damage: queues and index are
made anew from where they were last synced, and the log is cut behind its last whole record.

A store that is in use may be checked up to its confirm offset; what is derived from its newest
records may then be missing, as it is written later.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rocketpipe.model.flags import INNER_BATCH, Transaction, transaction_of
from rocketpipe.model.group import DELAYS_MS
from rocketpipe.model.names import SCHEDULE_TOPIC
from rocketpipe.model.offsets import LogOffset
from rocketpipe.record import checksum
from rocketpipe.record.codec import RecordView
from rocketpipe.record.hot import tag_code
from rocketpipe.store.errors import OddSegment
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.snapshot import Snapshot, SnapshotDamaged
from rocketpipe.store.index.entries import key_hashes
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.log.batch_mark import read_mark
from rocketpipe.store.state.checkpoint import NEVER, read_checkpoint
from rocketpipe.store.upkeep.findings import Kind, Report
from rocketpipe.store.upkeep.index_check import IndexCheck
from rocketpipe.store.upkeep.log_scan import Gap, LogFiles, log_of, scan
from rocketpipe.store.upkeep.queue_check import Queue, QueueCheck
from rocketpipe.store.upkeep.timer_check import TimerCheck


def check_store(
    disk: Disk,
    root: Path,
    *,
    end: LogOffset | None = None,
    delays_ms: Sequence[int] = DELAYS_MS,
    index_slots: int | None = None,
) -> Report:
    """Look through the store at ``root``: records, order, queues, index and timer against the log.

    ``end`` is where to stop, for a store that is in use; ``delays_ms`` are its delay levels, and
    ``index_slots`` is how many slots its index files have, if not a quarter of their entries.

    Raises:
        FormatUnknown: a newer version has changed the store; what is right in it is not known.
        DiskError: a file cannot be read.
    """
    layout = StoreLayout(root)
    report = Report(clean_stop=stopped_in_order(disk, layout))
    try:
        files = log_of(disk, layout)
    except OddSegment as error:
        report.add(Kind.ODD_FILE, error.path, 0, error.reason)
        return report
    marks = Marks.read(disk, layout)
    report.first_offset = report.end_offset = files.first_offset
    queues = QueueCheck(disk, layout, report, marks.queues_synced_to)
    timer = TimerCheck(disk, layout, report)
    # It jumps back to records seen before, so it reads through files of its own.
    with files, log_of(disk, layout) as index_log:
        index = IndexCheck(disk, layout.index, index_log, report, index_slots, *marks.index_synced)
        records = RecordCheck(marks, files, report, queues, index, timer, delays_ms)
        for item in scan(files, end=end):
            if isinstance(item, Gap):
                records.gap(item)
                if records.is_end(item):
                    break
            else:
                records.record(int(item.at), item.record)
        records.end_group()
        queues.finish(report.first_offset)
        index.finish()
        timer.finish()
    check_checkpoint(disk, layout, report)
    return report


def check_checkpoint(disk: Disk, layout: StoreLayout, report: Report) -> None:
    """Hold the checkpoint against the end of the log, which is in the report."""
    own = read_checkpoint(disk, layout.checkpoint).own
    end = report.end_offset
    # A filler may lie behind the last record.
    if own is not None and own.confirmed > end and own.last_record >= end:
        detail = f"it says {own.confirmed}, the log ends at {end}"
        report.add(Kind.CHECKPOINT_AHEAD, layout.checkpoint, 0, detail)


def stopped_in_order(disk: Disk, layout: StoreLayout) -> bool:
    """Whether the last broker that had the store was not killed."""
    return layout.abort.name not in disk.names(layout.root)


@dataclass(frozen=True, slots=True)
class Marks:
    """What a store says of itself: what is durable, shown, and believed by the next start."""

    clean_stop: bool
    #: A replica has more than it shows: nothing follows from that yet.
    shown: int
    #: Recovery looks at what lies behind it, and cuts what is not whole.
    durable: int
    queues_synced_to: int
    #: Up to where the index is believed, and the last file of it that is.
    index_synced: tuple[int, str]

    @classmethod
    def read(cls, disk: Disk, layout: StoreLayout) -> Marks:
        """Read them; raises DiskError if a file cannot be."""
        checkpoint = read_checkpoint(disk, layout.checkpoint)
        own = checkpoint.own
        known = own is not None
        shown = NEVER if own is None or checkpoint.foreign else checkpoint.confirmed
        if own is not None and shown >= own.confirmed:
            shown = NEVER
        return cls(
            stopped_in_order(disk, layout),
            shown,
            NEVER if own is None else own.confirmed,
            _synced(disk, layout.sums / "queues.json", known=known)[0],
            _synced(disk, layout.sums / "index.json", known=known),
        )


def _synced(disk: Disk, sums: Path, *, known: bool) -> tuple[int, str]:
    """Up to which offset of the log an opening believes derived files, and the last file it does.

    What lies behind is derived anew, whatever the files have. Of files that another broker wrote
    nothing is ``known``.
    """

    def read(text: bytes) -> tuple[int, str]:
        whole = json.loads(text)
        return int(whole["holds_to"]), max(
            (str(each[0]) for each in whole.get("files", ())), default=""
        )

    if not known:
        return NEVER, ""
    try:
        return Snapshot(disk, sums).load(read) or (0, "")
    except (SnapshotDamaged, LookupError, TypeError):
        return 0, ""


class RecordCheck:
    """Looks at records in the order of the log, and holds what derives from them against them."""

    def __init__(
        self,
        marks: Marks,
        files: LogFiles,
        report: Report,
        queues: QueueCheck,
        index: IndexCheck,
        timer: TimerCheck,
        delays_ms: Sequence[int],
    ) -> None:
        self._marks = marks
        self._files = files
        self._report = report
        self._queues = queues
        self._index = index
        self._timer = timer
        self._delays_ms = delays_ms
        #: The queue offset that each queue goes on with.
        self.next: dict[Queue, int] = {}
        self.last_ms = 0
        #: Start and end of the group that the last record belongs to.
        self.group: tuple[int, int] | None = None

    def is_end(self, gap: Gap) -> bool:
        """Whether a gap is where the next start cuts: what lies behind it goes with it."""
        return gap.at >= self._marks.durable and not self._marks.clean_stop

    def gap(self, gap: Gap) -> None:
        """Report bytes that are no record."""
        # A cut record without any behind it is what a crash leaves, and recovery takes away.
        kind = Kind.TORN_TAIL if gap.next_good is None else Kind.BAD_RECORD
        behind = "nothing" if gap.next_good is None else f"the next is at {gap.next_good}"
        path = self._files.path_of(gap.at)
        self._report.add(
            kind,
            path,
            gap.at,
            f"{gap.reason}; behind it: {behind}",
            left_over=gap.at >= self._marks.durable,
        )

    def record(self, at: int, record: bytes) -> None:
        """Look at the next record."""
        view = RecordView(record)
        report = self._report
        report.records += 1
        report.record_bytes += len(record)
        report.end_offset = LogOffset(at + len(record))
        sealed = checksum.is_sealed(record)
        report.unsealed += not sealed
        report.times_back += view.stored_ms < self.last_ms
        self.last_ms = view.stored_ms
        self._check_group(at, len(record), read_mark(record, sealed=sealed))
        shown = at + len(record) <= self._marks.shown
        kind = transaction_of(view.sys_flag)
        if kind not in (Transaction.PREPARED, Transaction.ROLLED_BACK):
            self._check_queue(at, view, shown=shown)
            if shown:
                self._timer.expect(at, view)
        if shown and kind is not Transaction.ROLLED_BACK:
            self._index.expect(at, view.stored_ms, key_hashes(view.topic, view.raw_properties))

    def _check_group(self, at: int, size: int, group: tuple[int, int] | None) -> None:
        if group != self.group:
            self.end_group()
            if group is not None and group[0] != at:
                self._report.add(
                    Kind.GROUP_CUT, self._files.path_of(at), at, f"it starts at {group[0]}"
                )
            self.group = group
        if group is not None and at + size >= group[1]:
            self.group = None

    def end_group(self) -> None:
        """Nothing of the group that is open follows."""
        if self.group is not None:
            start, end = self.group
            self._report.add(
                Kind.GROUP_CUT,
                self._files.path_of(start),
                start,
                f"it ends at {end}",
                left_over=start >= self._marks.durable and end > self._report.end_offset,
            )
            self.group = None

    def _check_queue(self, at: int, view: RecordView, *, shown: bool) -> None:
        queue = (view.topic, view.queue_id)
        offset = int(view.queue_offset)
        if view.sys_flag & INNER_BATCH:  # it has many offsets, and a queue of another kind
            self.next.pop(queue, None)
            return
        expected = self.next.get(queue, offset)
        if offset > expected:
            self.skipped(queue, offset, expected, at)
        elif offset < expected:
            self._order(Kind.OFFSETS_REPEATED, at, queue, offset, expected, 1)
        self.next[queue] = max(offset + 1, expected)
        if shown and offset >= expected:
            self._queues.expect(queue, offset, (at, view.size, self._tag_code(view)))

    def skipped(self, queue: Queue, offset: int, expected: int, at: int) -> None:
        """Report that a queue goes on with a later offset than it should."""
        self._order(Kind.OFFSETS_MISSING, at, queue, offset, expected, offset - expected)

    def _order(
        self, kind: Kind, at: int, queue: Queue, offset: int, expected: int, count: int
    ) -> None:
        detail = f"{queue[0]} queue {queue[1]}: {offset} follows {expected - 1}"
        self._report.add(kind, self._files.path_of(at), at, detail, count)

    def _tag_code(self, view: RecordView) -> int:
        if view.topic == SCHEDULE_TOPIC and view.delay_level > 0:
            level = min(view.delay_level, len(self._delays_ms))
            return view.stored_ms + self._delays_ms[level - 1]
        return tag_code(view.raw_properties)
