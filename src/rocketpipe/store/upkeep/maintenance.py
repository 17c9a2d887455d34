"""What an operator does to a store that nobody uses: look into it, mend it, cut it.

    dump, dump_queue    what the log and a queue hold, in words
    export_range        records of a range as a file of their own, back to back
    rebuild_derived     queues, index and timer made anew from the log
    truncate            the log cut at a record; what is cut off is kept under ``quarantine``

The first three only read, and may look at a store in use up to its confirm offset. The others
take the store's lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rocketpipe.clock import Clock
from rocketpipe.errors import RecordError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.record import checksum
from rocketpipe.record.codec import RecordView
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.derived.derivation import Arrival
from rocketpipe.store.derived.dispatcher import OnArrival
from rocketpipe.store.derived.prepared import Prepared, portions, remove_prepared
from rocketpipe.store.errors import RecordCorrupt, StoreDamaged
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout, offset_of
from rocketpipe.store.log.batch_mark import read_mark
from rocketpipe.store.log.commit_log import CommitLog
from rocketpipe.store.log.end import end_of_data
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.queues.entries import BLANK_SIZE, QUEUE_ENTRY, QUEUE_ENTRY_BYTES
from rocketpipe.store.state.checkpoint import read_checkpoint
from rocketpipe.store.state.format_version import check_format
from rocketpipe.store.state.run_files import locked
from rocketpipe.store.upkeep.cutting import (
    cut_files,
    is_replica,
    remove,
    remove_derived,
)
from rocketpipe.store.upkeep.log_scan import Gap, LogFiles, Scanned, log_of, scan
from rocketpipe.store.upkeep.queue_check import last_files_of_expired, queues_on_disk
from rocketpipe.store.upkeep.rebuild_parts import DerivesSegments, RebuildPlan

_NO_HOST = bytes(8)


class _ArrivalCount:
    """Counts the messages that became readable."""

    wanted = None

    def __init__(self) -> None:
        self.count = 0

    def tell(self, arrivals: Sequence[Arrival]) -> None:
        self.count += len(arrivals)

    def counted(self, prepared: Iterable[Prepared]) -> Iterator[Prepared]:
        """Count those that are brought to the queues without being told of."""
        for each in prepared:
            yield each
            # Who takes one asks for the next; one that is not taken is the last.
            self.count += sum(len(run.entries) for run in each.derived.runs) // QUEUE_ENTRY_BYTES


@dataclass(frozen=True, slots=True)
class Dumped:
    """A place of the log, in words; ``record`` is None where there is no whole record."""

    at: LogOffset
    text: str
    record: RecordView | None


@dataclass(frozen=True, slots=True)
class Truncated:
    """Where a log ends now, and where the bytes are that followed."""

    end: LogOffset
    kept_in: Path | None


def dump(
    disk: Disk, root: Path, start: LogOffset | None = None, end: LogOffset | None = None
) -> Iterator[Dumped]:
    """Describe the records from ``start``, the place of one, up to ``end``; damage too.

    Raises:
        OddSegment: the files are no log.
        DiskError: they cannot be read.
    """
    with log_of(disk, StoreLayout(root)) as files:
        for item in scan(files, start, end):
            if isinstance(item, Gap):
                yield Dumped(item.at, _gap_text(item), None)
            else:
                view = RecordView(item.record)
                yield Dumped(item.at, _record_text(item.at, view), view)


def _gap_text(gap: Gap) -> str:
    behind = "nothing behind it" if gap.next_good is None else f"next record at {gap.next_good}"
    return f"{gap.at} damaged: {gap.reason}; {behind}"


def _record_text(at: LogOffset, view: RecordView) -> str:
    facts = [
        f"{at} {view.topic}@{view.queue_id}:{view.queue_offset}",
        f"size={view.size}",
        f"stored_ms={view.stored_ms}",
        f"born={view.born_host}",
        f"body={len(view.stored_body)}",
    ]
    if view.sys_flag:
        facts.append(f"sys_flag={view.sys_flag:#x}")
    if view.reconsume_times:
        facts.append(f"attempts={view.reconsume_times}")
    # Names and values come from outside: their quotes keep them on one line.
    facts += [f"{name}={value!r}" for name, value in view.properties.items()]
    return " ".join(facts)


def dump_queue(disk: Disk, root: Path, topic: str, queue_id: int) -> Iterator[str]:
    """Describe the entries of one queue, in order; entries that only fill up are left out.

    Raises:
        InvalidName: no topic has this name.
        FormatUnknown: a newer version has changed the store.
        DiskError: the files cannot be read.
    """
    check_format(disk, root)
    directory = StoreLayout(root).queue(topic, queue_id)
    for name in disk.names(directory):
        base = offset_of(name)
        if base is None:
            continue
        with disk.open(directory / name, writable=False) as file:
            data = file.read(file.size(), at=0)
        data = data[: len(data) // QUEUE_ENTRY_BYTES * QUEUE_ENTRY_BYTES]
        for number, entry in enumerate(QUEUE_ENTRY.iter_unpack(data), base // QUEUE_ENTRY_BYTES):
            offset, size, tag_code = entry
            if size not in (0, BLANK_SIZE):
                yield f"{number} log_offset={offset} size={size} tag_code={tag_code}"


def export_range(
    disk: Disk,
    root: Path,
    target: Path,
    start: LogOffset | None = None,
    end: LogOffset | None = None,
    *,
    wanted: Callable[[RecordView], bool] = lambda view: True,
) -> int:
    """Write the records from ``start`` up to ``end`` into a new file, as they are; gives how many.

    The file is one that ``record.codec.view_records`` reads. ``wanted`` may leave some out.

    Raises:
        RecordCorrupt: no record is at ``start``.
        StoreDamaged: one in the range is not whole; the file has those before it.
        DiskError: a file cannot be read or written, or the target is there.
    """
    with log_of(disk, StoreLayout(root)) as files:
        if start is not None:
            try:
                files.record_at(start)
            except RecordError as error:
                raise RecordCorrupt(start, error.reason) from error
        count = at = 0
        with disk.create(target) as file:
            for item in scan(files, start, end):
                if isinstance(item, Gap):
                    file.sync()
                    raise StoreDamaged(files.path_of(item.at), item.at, item.reason, item.next_good)
                if wanted(RecordView(item.record)):
                    file.write(item.record, at=at)
                    at += len(item.record)
                    count += 1
            file.sync()
    disk.sync_directory(target.parent)
    return count


def rebuild_derived(
    config: StoreConfig, disk: Disk, clock: Clock, derives: DerivesSegments | None = None
) -> int:
    """Make queues, index and timer anew from the log; gives the number of records.

    Queues of which the log has no message any more keep their last file, and so their offsets.
    File sizes stay as they are. It may be interrupted: the next opening of the store goes on.
    ``derives`` reads the segments, many at a time if it likes, before anything is changed; without
    it they are read one after the other when everything else is done.

    Raises:
        StoreLocked: the store is in use.
        StoreDamaged: the log has damage; mend that first.
        DiskError: a file cannot be read, written or removed.
    """
    layout = StoreLayout(config.root)
    config = _with_sizes_of_files(config, disk, layout)
    with locked(disk, layout) as marks:
        with log_of(disk, layout) as files:
            kept = frozenset(last_files_of_expired(disk, layout, files.first_offset))
            bases = list(files.bases)
        parts: list[Path] = []
        if derives is not None:
            disk.make_directory(layout.sums)
            remove_prepared(disk, layout.sums)
            try:
                names = derives(RebuildPlan.of(config), bases)
                parts = [layout.sums / name for name in names]
            except BaseException:
                remove_prepared(disk, layout.sums)
                raise
        # From here on a start is one after a crash, which looks at what there is.
        marks.begin(os.getpid())
        if read_checkpoint(disk, layout.checkpoint).own is None:
            # RocketMQ's has times, by which it would take queues for complete.
            remove(disk, layout.checkpoint)
            disk.sync_directory(config.root)
        remove_derived(disk, layout, kept.union(parts))
        replicated = is_replica(disk, layout)
    arrivals = _ArrivalCount()
    prepared = arrivals.counted(portions(disk, parts))
    _open_once(config, disk, clock, arrivals, replicated=replicated, prepared=prepared)
    return arrivals.count


def _open_once(
    config: StoreConfig,
    disk: Disk,
    clock: Clock,
    on_arrival: OnArrival | None = None,
    *,
    replicated: bool,
    prepared: Iterable[Prepared] = (),
) -> None:
    """Have an opening do what is left: of a replica it shows no more than was confirmed."""
    MessageStore.open(
        config,
        disk=disk,
        clock=clock,
        store_host=_NO_HOST,
        on_arrival=on_arrival,
        threads=False,
        replicated=replicated,
        prepared=prepared,
    ).close()


def truncate(config: StoreConfig, disk: Disk, clock: Clock, offset: LogOffset) -> Truncated:
    """Cut the log at ``offset``, which is where a record starts or ends.

    A group of messages that it would cut in two goes as a whole. Queues, index and timer follow.
    Interrupted, it leaves a store that opens, with some of what was to go; do it again then.

    Raises:
        StoreLocked: the store is in use.
        RecordCorrupt: no record starts or ends there.
        DiskError: a file cannot be read, written or removed.
    """
    layout = StoreLayout(config.root)
    with locked(disk, layout) as marks:
        with log_of(disk, layout) as files:
            last = _last_before(files, offset)
            end = files.first_offset if last is None else LogOffset(last.at + len(last.record))
        replicated = is_replica(disk, layout)
        marks.begin(os.getpid())
        commit_log = CommitLog(disk, layout.commit_log, config.segment_bytes)
        try:
            data_end = end_of_data(commit_log, end, commit_log.run.end)
            last_at = -1 if last is None else int(last.at)
            kept_in = cut_files(
                config, disk, commit_log, end, last_at, data_end, confirmed_only=replicated
            )
        finally:
            commit_log.close()
    _open_once(config, disk, clock, replicated=replicated)
    return Truncated(end, kept_in)


def _last_before(files: LogFiles, offset: LogOffset) -> Scanned | None:
    """The last record that stays when the log is cut at ``offset``; None if none does."""
    first = files.first_offset
    if not first <= offset <= files.end:
        raise RecordCorrupt(offset, f"the log goes from {first} to {files.end}")
    if offset == first:
        return None
    last: Scanned | None = None
    for item in scan(files, start=LogOffset(files.base_of(offset - 1)), end=offset):
        if isinstance(item, Gap):
            raise RecordCorrupt(item.at, f"{item.reason}, before {offset}")
        last = item
    if last is None:
        raise RecordCorrupt(offset, "no record is before it")
    end = last.at + len(last.record)
    if end != offset and offset not in files.bases:
        raise RecordCorrupt(offset, f"is within or behind the record at {last.at}")
    group = read_mark(last.record, sealed=checksum.is_sealed(last.record))
    if group is not None and group[1] > end:
        return _last_before(files, LogOffset(max(group[0], first)))
    return last


def _with_sizes_of_files(config: StoreConfig, disk: Disk, layout: StoreLayout) -> StoreConfig:
    """The settings, with the sizes that the files have which are about to go."""
    for _, directory in queues_on_disk(disk, layout):
        for name in disk.names(directory):
            if offset_of(name) is not None:
                with disk.open(directory / name, writable=False) as file:
                    size = file.size()
                if size and size % QUEUE_ENTRY_BYTES == 0:
                    return replace(config, queue_file_bytes=size)
    return config
