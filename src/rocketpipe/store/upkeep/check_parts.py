"""A store looked through in parts, which may be done at the same time and elsewhere.

    plan      what all parts know: what the store says of itself, its segments, its files
    index     a part for each index file: how its entries hang together, and where they lead
    segments  a part for each segment: its records, against queues and index
    queues    a part for some queues: entries of which the log knows nothing

What they find, put together, is what `check_store` finds. A segment begins as if nothing were wrong
before it; where that was not so (a queue goes on with an offset that it had, a group of messages
was cut), it is done again with what is known by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from rocketpipe.errors import RecordError
from rocketpipe.model.flags import INNER_BATCH, Transaction, transaction_of
from rocketpipe.model.group import DELAYS_MS
from rocketpipe.model.offsets import LogOffset
from rocketpipe.record import checksum
from rocketpipe.record.codec import RecordView
from rocketpipe.record.layout import SIZE_AND_MAGIC
from rocketpipe.store.errors import OddSegment
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.log.batch_mark import read_mark
from rocketpipe.store.upkeep.check import Marks, RecordCheck, check_checkpoint, stopped_in_order
from rocketpipe.store.upkeep.findings import Kind, Report
from rocketpipe.store.upkeep.index_check import IndexCheck, IndexEntry, index_files
from rocketpipe.store.upkeep.log_scan import Gap, LogFiles, is_full, log_of, scan
from rocketpipe.store.upkeep.queue_check import Queue, QueueCheck
from rocketpipe.store.upkeep.timer_check import TimerCheck

_UNWRITTEN: Final = "nothing is written here"
#: So many queues a part looks through for entries of which the log knows nothing.
_QUEUES_A_PART: Final = 64


@dataclass(frozen=True, slots=True)
class Plan:
    """What every part has to know."""

    root: Path
    marks: Marks
    segments: tuple[int, ...]
    segment_bytes: int
    index: tuple[Path, ...]
    queue_file_bytes: Mapping[Queue, int]


@dataclass(slots=True)
class Walk:
    """How far whoever walks log and index side by side has come in the index.

    An entry is met at its record, unless one before it leads further; and of the entries of one
    record those behind another's are not.
    """

    furthest: int = -1
    is_left: bool = False

    def meets(self, log_offset: int) -> bool:
        """Whether an entry, the next one, is met at its record."""
        if log_offset > self.furthest:
            self.furthest, self.is_left = log_offset, False
            return True
        self.is_left = self.is_left or log_offset < self.furthest
        return not self.is_left


@dataclass(frozen=True, slots=True)
class IndexPart:
    """An index file: where in the log its entries lead, and how far one comes with it alone."""

    file: Path
    report: Report
    least: int
    walk: Walk


@dataclass(frozen=True, slots=True)
class Before:
    """What a segment has to know of those before it."""

    group: tuple[int, int] | None = None
    next: Mapping[Queue, int] = field(default_factory=dict)


@dataclass(slots=True)
class SegmentPart:
    """A segment, and how it goes with its neighbours."""

    base: int
    report: Report
    #: What was found of index entries that lead into it.
    index: Report
    before: Before
    #: The first record; None if there is none.
    first: int | None = None
    first_ms: int = 0
    last_ms: int = 0
    #: The queue offset and place of each queue's first record; None where that has many offsets.
    firsts: dict[Queue, tuple[int, int] | None] = field(default_factory=dict)
    next: dict[Queue, int] = field(default_factory=dict)
    seen: dict[Queue, tuple[int, int]] = field(default_factory=dict)
    timed: dict[int, tuple[int, int]] = field(default_factory=dict)
    group: tuple[int, int] | None = None
    #: What lies before the first record, and behind the last.
    head: Gap | None = None
    tail: Gap | None = None
    #: A gap was found where the next start cuts.
    is_end: bool = False


def plan(disk: Disk, root: Path, report: Report) -> Plan | None:
    """What parts there are; None, with a finding, if the files are no log.

    Raises:
        FormatUnknown: a newer version has changed the store.
        DiskError: a file cannot be read.
    """
    layout = StoreLayout(root)
    report.clean_stop = stopped_in_order(disk, layout)
    try:
        files = log_of(disk, layout)
    except OddSegment as error:
        report.add(Kind.ODD_FILE, error.path, 0, error.reason)
        return None
    with files:
        report.first_offset = report.end_offset = files.first_offset
        marks = Marks.read(disk, layout)
        queues = QueueCheck(disk, layout, report, marks.queues_synced_to)
        return Plan(
            root,
            marks,
            tuple(files.bases),
            files.segment_bytes,
            tuple(index_files(disk, layout.index)),
            queues.file_bytes,
        )


def check_index_file(disk: Disk, plan: Plan, file: Path) -> IndexPart:
    """Look through one file of the index; what leads into the log is left to the segments."""
    layout = StoreLayout(plan.root)
    report = Report(clean_stop=plan.marks.clean_stop)
    with log_of(disk, layout) as log:
        check = IndexCheck(
            disk, layout.index, log, report, None, *plan.marks.index_synced, entries=()
        )
        walk, least, outside = Walk(), None, []
        for entry in check.entries_of(file):
            report.index_entries += 1
            least = entry.log_offset if least is None else min(least, entry.log_offset)
            walk.meets(entry.log_offset)
            if entry.log_offset >= log.end:
                outside.append(entry)
        check.look_at(outside)
    return IndexPart(file, report, 0 if least is None else least, walk)


def check_segment(
    disk: Disk,
    plan: Plan,
    base: int,
    index: Sequence[tuple[Path, Walk]],
    before: Before | None = None,
    delays_ms: Sequence[int] = DELAYS_MS,
) -> SegmentPart:
    """Look through one segment.

    ``index`` are the index files that lead into it, each with how far one comes with the files
    before it. Without ``before``, all is taken to be right that lies before.
    """
    layout, marks = StoreLayout(plan.root), plan.marks
    report = Report(clean_stop=marks.clean_stop)
    end = base + plan.segment_bytes
    with log_of(disk, layout) as files, log_of(disk, layout) as index_log:
        if before is None:
            before = Before(_group_at(files, base))
        part = SegmentPart(base, report, Report(clean_stop=marks.clean_stop), before)
        queues = QueueCheck(disk, layout, report, marks.queues_synced_to, plan.queue_file_bytes)
        entries, late = _entries_into(disk, layout, index_log, index, base, end)
        against = IndexCheck(
            disk, layout.index, index_log, part.index, None, *marks.index_synced, entries=entries
        )
        timer = TimerCheck(disk, layout, report)
        records = RecordCheck(marks, files, report, queues, against, timer, delays_ms)
        records.next, records.group = dict(before.next), before.group
        at = base
        for item in scan(files, LogOffset(base), LogOffset(end)):
            if isinstance(item, Gap):
                if item.next_good is None and end - item.at >= SIZE_AND_MAGIC.size:
                    part.tail = item
                    break
                if item.at == base:
                    part.head = item
                    continue
                records.gap(item)
                part.is_end = records.is_end(item)
                if part.is_end:
                    break
                at = end
            else:
                _note(part, int(item.at), item.record)
                records.record(int(item.at), item.record)
                at = int(item.at) + len(item.record)
        if part.tail is None and not part.is_end and not is_full(files, at, end):
            part.tail = Gap(LogOffset(at), _UNWRITTEN, None, LogOffset(at))
        against.finish()
        against.look_at(late)
        part.next, part.group, part.last_ms = records.next, records.group, records.last_ms
        part.seen, part.timed = queues.seen, timer.records
        part.index.index_entries = 0  # they are counted by file
    return part


def check_queues(
    disk: Disk, plan: Plan, seen: Mapping[Queue, tuple[int, int]], queues: Sequence[Queue]
) -> Report:
    """Look for entries of which the log knows nothing, in these queues."""
    report = Report(clean_stop=plan.marks.clean_stop)
    check = QueueCheck(
        disk,
        StoreLayout(plan.root),
        report,
        plan.marks.queues_synced_to,
        {queue: plan.queue_file_bytes[queue] for queue in queues},
    )
    check.seen = {queue: seen[queue] for queue in queues if queue in seen}
    check.finish(LogOffset(plan.segments[0] if plan.segments else 0))
    return report


@dataclass(frozen=True, slots=True)
class Workers:
    """Who does parts: each call is given all of one kind, and gives what came of each, in order."""

    index: Callable[[Plan, Sequence[Path]], Iterable[IndexPart]]
    segments: Callable[[Plan, Sequence[tuple[int, list[tuple[Path, Walk]]]]], Iterable[SegmentPart]]
    queues: Callable[
        [Plan, Mapping[Queue, tuple[int, int]], Sequence[Sequence[Queue]]], Iterable[Report]
    ]


def check_in_parts(disk: Disk, root: Path, workers: Workers) -> Report:
    """Look through the store at ``root``, each part by a worker; finds what `check_store` finds.

    Raises:
        FormatUnknown: a newer version has changed the store.
        DiskError: a file cannot be read.
    """
    report = Report()
    planned = plan(disk, root, report)
    if planned is None:
        return report
    layout = StoreLayout(root)
    index = list(workers.index(planned, planned.index))
    wanted = [(base, _leading_into(planned, base, index)) for base in planned.segments]
    parts = list(workers.segments(planned, wanted))
    seen, timed = _in_order(disk, planned, parts, dict(wanted), report)
    queues = list(planned.queue_file_bytes)
    groups = [
        queues[each : each + _QUEUES_A_PART] for each in range(0, len(queues), _QUEUES_A_PART)
    ]
    for found in workers.queues(planned, seen, groups):
        report.take(found)
    for part in index:
        report.take(part.report)
    timer = TimerCheck(disk, layout, report)
    timer.records = timed
    timer.finish()
    check_checkpoint(disk, layout, report)
    return report


def in_this_process(disk: Disk) -> Workers:
    """Do the parts here, one after the other."""
    return Workers(
        lambda plan, files: [check_index_file(disk, plan, each) for each in files],
        lambda plan, wanted: [check_segment(disk, plan, *each) for each in wanted],
        lambda plan, seen, groups: [check_queues(disk, plan, seen, each) for each in groups],
    )


def _in_order(
    disk: Disk,
    plan: Plan,
    parts: Sequence[SegmentPart],
    index: Mapping[int, list[tuple[Path, Walk]]],
    report: Report,
) -> tuple[dict[Queue, tuple[int, int]], dict[int, tuple[int, int]]]:
    """Put segments together; gives what queues have, and what waits for its time."""
    layout = StoreLayout(plan.root)
    seen: dict[Queue, tuple[int, int]] = {}
    timed: dict[int, tuple[int, int]] = {}
    following: dict[Queue, int] = {}
    last_ms, group, tail = 0, None, None
    with log_of(disk, layout) as files:
        queues = QueueCheck(disk, layout, report, file_bytes={})
        against = IndexCheck(disk, layout.index, files, report, entries=())
        timer = TimerCheck(disk, layout, report)
        records = RecordCheck(plan.marks, files, report, queues, against, timer, ())
        is_end = False
        for part in parts:
            if is_end or (tail is not None and part.first is None):
                # Nobody looks at its records; where entries lead can be asked all the same.
                report.take(part.index.only(Kind.INDEX_ENTRY_WRONG))
            if is_end:
                continue
            if tail is not None:
                if part.first is None:
                    if tail.end == tail.at and part.tail and part.tail.end > part.tail.at:
                        tail = Gap(tail.at, tail.reason, None, part.tail.end)
                    continue
                gap: Gap | None = Gap(tail.at, tail.reason, LogOffset(part.first), tail.end)
            else:
                gap = part.head
            tail = None
            if gap is not None:
                records.gap(gap)
                is_end = records.is_end(gap)
                if is_end:
                    report.take(part.index.only(Kind.INDEX_ENTRY_WRONG))
                    continue
            if not _goes_on(part, group, following):
                now = Before(group, following)
                part = check_segment(disk, plan, part.base, index[part.base], now)
            else:
                for queue, first in part.firsts.items():
                    if first is not None and first[0] > following.get(queue, first[0]):
                        records.skipped(queue, first[0], following[queue], first[1])
            report.times_back += part.first is not None and part.first_ms < last_ms
            last_ms = part.last_ms if part.first is not None else last_ms
            report.take(part.report)
            report.take(part.index)
            for queue, (low, high) in part.seen.items():
                before = seen.get(queue, (low, high))
                seen[queue] = (min(low, before[0]), max(high, before[1]))
            timed |= part.timed
            for queue in part.firsts:
                following.pop(queue, None)
            following |= part.next
            group, tail, is_end = part.group, part.tail, part.is_end
        if tail is not None and not is_end and tail.end > tail.at:
            records.gap(tail)
        records.group = group
        records.end_group()
    return seen, timed


def _goes_on(
    part: SegmentPart, group: tuple[int, int] | None, following: Mapping[Queue, int]
) -> bool:
    """Whether a segment was right in how it took what lies before it."""
    if part.first is None:
        return group is None or part.before.group == group
    if part.before.group != group:
        return False
    return all(
        first is None or first[0] >= following.get(queue, 0) for queue, first in part.firsts.items()
    )


def _note(part: SegmentPart, at: int, record: bytes) -> None:
    view = RecordView(record)
    if part.first is None:
        part.first, part.first_ms = at, view.stored_ms
    if transaction_of(view.sys_flag) in (Transaction.PREPARED, Transaction.ROLLED_BACK):
        return
    queue = (view.topic, view.queue_id)
    if queue not in part.firsts:
        has_many = view.sys_flag & INNER_BATCH
        part.firsts[queue] = None if has_many else (int(view.queue_offset), at)


def _group_at(files: LogFiles, base: int) -> tuple[int, int] | None:
    """The group that a segment's first record goes on with, if it does."""
    try:
        record = files.record_at(base)
    except RecordError:
        return None
    group = read_mark(record, sealed=checksum.is_sealed(record))
    return group if group is not None and group[0] < base else None


def _leading_into(plan: Plan, base: int, index: Sequence[IndexPart]) -> list[tuple[Path, Walk]]:
    """The index files with entries for a segment, and how far one comes before each."""
    found: list[tuple[Path, Walk]] = []
    walk = Walk()
    for part in index:
        if not part.report.index_entries:
            continue
        if part.least < base + plan.segment_bytes and part.walk.furthest >= base:
            found.append((part.file, walk))
        if part.walk.furthest > walk.furthest:
            walk = part.walk
        else:
            walk = Walk(walk.furthest, walk.is_left or part.least < walk.furthest)
    return found


def _entries_into(
    disk: Disk,
    layout: StoreLayout,
    log: LogFiles,
    index: Sequence[tuple[Path, Walk]],
    base: int,
    end: int,
) -> tuple[list[IndexEntry], list[IndexEntry]]:
    """Entries that lead into a segment: those in order, and those behind one that leads further.

    Nobody who walks log and index side by side meets the latter at their records.
    """
    unread = Report()
    in_order: list[IndexEntry] = []
    late: list[IndexEntry] = []
    check = IndexCheck(disk, layout.index, log, unread, entries=())
    for file, before in index:
        walk = replace(before)
        for entry in check.entries_of(file):
            is_met = walk.meets(entry.log_offset)
            if base <= entry.log_offset < end:
                (in_order if is_met else late).append(entry)
    return in_order, late
