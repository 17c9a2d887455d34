"""The end of a log taken back, or all of it, while nobody uses the store.

    cut        a replica does without what its leader does not have
    drop_log   it does without everything, as the leader's log begins behind its own

What is cut off is kept under ``quarantine``. Whatever interrupts them, the store opens: with a log
that has no gap, and with queues that tell of no other records than it has. Doing it again ends it.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketpipe.clock import Clock
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.errors import RecordCorrupt
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.files.quarantine import Quarantine
from rocketpipe.store.layout import StoreLayout, offset_of
from rocketpipe.store.log.commit_log import CommitLog
from rocketpipe.store.log.end import record_at, stored_ms_of, unfinished_group, walk_to_end
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.state.checkpoint import Checkpoint
from rocketpipe.store.state.run_files import locked
from rocketpipe.store.upkeep.queue_check import queues_on_disk

_NO_HOST: Final = bytes(8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Where a log ends now, what it has lost, and where that is kept."""

    at: LogOffset
    records: int
    bytes: int
    kept_in: Path | None


def cut(config: StoreConfig, disk: Disk, clock: Clock, to: LogOffset) -> Cut:
    """Cut a replica's log at ``to``, or where the group starts that lies across it.

    Queues, index, timer and checkpoint follow; what lies behind the confirm offset still does.

    Raises:
        StoreLocked: The store is in use.
        StoreDamaged: The log is damaged: there is no telling what would be cut.
        RecordCorrupt: The log begins behind ``to``.
        DiskError: A file cannot be read, written or removed.
    """
    layout = StoreLayout(config.root)
    end = _opened_once(config, disk, clock)
    with locked(disk, layout) as marks:
        commit_log = CommitLog(disk, layout.commit_log, config.segment_bytes)
        try:
            if to < commit_log.first_offset:
                reason = f"no cut there, as the log goes from {commit_log.first_offset} to {end}"
                raise RecordCorrupt(to, reason)
            if to >= end:
                return Cut(at=end, records=0, bytes=0, kept_in=None)
            at, last = _whole_before(commit_log, to)
            gone = walk_to_end(commit_log, at, end).records
            marks.begin(os.getpid())
            kept_in = cut_files(config, disk, commit_log, at, last, end, confirmed_only=True)
        finally:
            commit_log.close()
    _opened_once(config, disk, clock)
    return Cut(at=at, records=gone, bytes=end - at, kept_in=kept_in)


def _opened_once(config: StoreConfig, disk: Disk, clock: Clock) -> LogOffset:
    """Have an opening settle whatever was left; gives where the log ends."""
    store = MessageStore.open(
        config, disk=disk, clock=clock, store_host=_NO_HOST, threads=False, replicated=True
    )
    end = store.positions.written
    store.close()
    return end


def _whole_before(commit_log: CommitLog, to: int) -> tuple[LogOffset, int]:
    """Where the last group before an offset ends, and where its last record starts; −1 if none."""
    first, size = commit_log.run.first, commit_log.run.size
    while to > first:
        base = (to - 1) - (to - 1) % size
        found = walk_to_end(commit_log, base, to)
        group = unfinished_group(commit_log, found)
        if found.last_record < 0:
            to = base  # the first record of its segment goes
        elif group is not None:
            to = group
        else:
            return LogOffset(found.end), found.last_record
    return LogOffset(first), -1


def cut_files(
    config: StoreConfig,
    disk: Disk,
    commit_log: CommitLog,
    end: LogOffset,
    last_record: int,
    data_end: int,
    *,
    confirmed_only: bool,
) -> Path | None:
    """Have the log end at ``end``; gives the file that has what followed, up to ``data_end``.

    ``confirmed_only`` leaves what lies behind the confirm offset there, else it moves to the end.

    Raises:
        DiskError: A file cannot be read, written or removed.
    """
    layout = StoreLayout(config.root)
    last = record_at(commit_log, last_record) if last_record >= 0 else None
    kept_in = None
    if data_end > end:
        kept = Quarantine(disk, layout.quarantine, config.quarantine_bytes)
        kept_in = kept.keep(
            f"truncated-{end:020d}",
            data_end - end,
            lambda place, size: commit_log.run.read(end + place, size),
        )
    # The checkpoint first: it may be behind the log at any moment, and never ahead.
    checkpoint = Checkpoint(disk, layout.checkpoint)
    try:
        checkpoint.rewind(
            end,
            last_record,
            commit_log.first_offset,
            stored_ms_of(last) if last is not None else 0,
            min(checkpoint.data.confirmed, end) if confirmed_only else None,
        )
        checkpoint.sync()
    finally:
        checkpoint.close()
    # One segment after the other: a crash in between must not leave a gap.
    for segment in reversed(commit_log.run.segments):
        if segment.base >= end:
            commit_log.run.truncate(segment.base)
    commit_log.run.truncate(end)
    return kept_in


def drop_log(config: StoreConfig, disk: Disk) -> None:
    """Remove the log and all that follows from it; tables and what is in quarantine stay.

    Raises:
        StoreLocked: The store is in use.
        DiskError: A file cannot be removed.
    """
    layout = StoreLayout(config.root)
    with locked(disk, layout) as marks:
        marks.begin(os.getpid())
        # First what says how much there was, last what everything else can be made from: in
        # between it is a store after a crash whose derived files are to be made anew.
        remove(disk, layout.checkpoint)
        disk.sync_directory(config.root)
        remove_derived(disk, layout)
        for name in reversed(_names(disk, layout.commit_log)):
            if offset_of(name) is not None:
                remove(disk, layout.commit_log / name)
                disk.sync_directory(layout.commit_log)


def remove_derived(disk: Disk, layout: StoreLayout, kept: frozenset[Path] = frozenset()) -> None:
    """Remove what follows from the log, but some files.

    Raises:
        DiskError: A file cannot be removed.
    """
    for directory in (layout.sums, layout.index, layout.timer):
        for name in _names(disk, directory):
            if directory / name not in kept:
                remove(disk, directory / name)
    if layout.sums.name in disk.names(layout.root):
        disk.sync_directory(layout.sums)
    for _, directory in queues_on_disk(disk, layout):
        _remove_newest_first(disk, directory, kept)


def _remove_newest_first(disk: Disk, directory: Path, kept: frozenset[Path]) -> None:
    """Remove files of a queue so that, whenever it ends, those are left with which it begins."""
    going = [name for name in _names(disk, directory) if directory / name not in kept]
    for name in reversed(going):
        remove(disk, directory / name)
        if name != going[0]:
            disk.sync_directory(directory)


def is_replica(disk: Disk, layout: StoreLayout) -> bool:
    """Whether the store has followed, or led, others: then not all of it need be confirmed.

    Raises:
        DiskError: The directory cannot be read.
    """
    return layout.epochs.name in disk.names(layout.root)


def remove(disk: Disk, path: Path) -> None:
    """Remove a file, if it is there.

    Raises:
        DiskError: It cannot be removed.
    """
    try:
        disk.remove(path)
    except DiskError as error:
        if error.errno != errno.ENOENT:
            raise


def _names(disk: Disk, directory: Path) -> list[str]:
    try:
        return disk.names(directory)
    except DiskError as error:
        if error.errno == errno.ENOENT:
            return []
        raise
