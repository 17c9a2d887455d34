"""A store's directory, looked at from outside: its queues and its log, and nothing is written.

The broker that owns it may run, be down, or be Apache's. Readers go no further than the confirm
offset in the checkpoint, where one of ours has written it: everything before that is durable. A
running broker keeps queue entries back for a while; what the queues' files lack up to there is
found by walking the log from where the checkpoint says that the files are complete.

Apache's broker publishes no such offset as a rule, but writes a queue entry behind its record. In
its directories a queue ends with the last entry whose record is whole.

    checkpoint  →  confirm offset, and how far the queues' files are complete
    queue file  →  entries of 20 bytes: place, size, tag code
    log         →  what is missing in between
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from rocketpipe.errors import RecordError, RocketPipeError, StoreError
from rocketpipe.pipeline.columns.byte_runs import Ints
from rocketpipe.pipeline.log.queue_view import (
    ENTRY,
    NO_TAG_CODE,
    Entries,
    PlannedQueue,
    QueueView,
)
from rocketpipe.pipeline.log.walk import queued_in, whole_records
from rocketpipe.store.files.disk import Closing, Disk, DiskError, DiskFile
from rocketpipe.store.files.snapshot import Snapshot
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.state.checkpoint import read_checkpoint
from rocketpipe.store.state.format_version import check_format
from rocketpipe.store.upkeep.log_scan import LogFiles

_CHUNK_BYTES: Final = 8 << 20
#: Of a directory that is no store, where one is looked for.
_MOST_LOOKED_AT: Final = 100
#: Files go one after the other: who looks so often sees them as they are.
_LOOKS: Final = 10
#: Queues of a planned read whose files stay open.
_MAX_PLANNED: Final = 64
_HEAD_BYTES: Final = 76
_SYS_FLAG_AT: Final = 36
_STORED_AT: Final = 56


class LogNotFound(RocketPipeError):
    """A path is no store that this machine can read; the text says what is amiss."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"no log to read: {path} {reason}; give the store directory of a broker "
            "(storePathRootDir, with commitlog/ and consumequeue/ in it), with Spark on a disk "
            "that the driver and all executors see under this name"
        )
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type[LogNotFound], tuple[Path, str]]:
        return type(self), (self.path, self.reason)


class LogDirectory(Closing):
    """One look at a store: what comes in later is not seen. Close it, or use ``with``.

    Raises:
        LogNotFound: If there is no store, or it cannot be read.
    """

    def __init__(self, path: Path, disk: Disk | None = None) -> None:
        self.path = path
        self._disk = disk or Disk()
        self._layout = StoreLayout(path)
        if not path.is_dir():
            raise LogNotFound(path, "is not a directory that this machine can see")
        if not self._layout.commit_log.is_dir():
            near = _store_beside(path)
            meant = f", but {near} has" if near is not None else ""
            raise LogNotFound(path, f"has no commitlog/ in it{meant}")
        try:
            check_format(self._disk, path)
            # First of all: whatever it speaks of is in the files that are looked at afterwards.
            checkpoint = read_checkpoint(self._disk, self._layout.checkpoint)
            self.log = log_files(self._disk, self._layout.commit_log)
        except (DiskError, StoreError) as error:
            raise LogNotFound(path, f"cannot be read ({error})") from error
        own = None if checkpoint.foreign else checkpoint.own
        #: Nothing at or behind this is shown; None where nobody has said.
        self.confirmed = min(own.confirmed, checkpoint.confirmed) if own is not None else None
        self._complete_to = own.derived if own is not None else 0
        self._queues: dict[tuple[str, int], QueueView] = {}
        #: Where the queue ended that was looked at last.
        self._near = -1
        self._segment: tuple[int, DiskFile] | None = None
        #: Those that were asked for last come last.
        self._planned: dict[tuple[str, int], PlannedQueue] = {}

    def close(self) -> None:
        """Close the files."""
        self.log.close()
        while self._planned:
            self._planned.popitem()[1].close()
        if self._segment is not None:
            self._segment[1].close()
            self._segment = None

    def read_into(self, room: memoryview, log_offset: int) -> int:
        """Fill a room with what the log has from an offset on; gives how much that was.

        Raises:
            DiskError: If it cannot be read; the file may have been removed meanwhile.
        """
        base, file = self.segment_of(log_offset)
        try:
            read = os.preadv(file.fileno(), [room], log_offset - base)
            while 0 < read < len(room):
                more = os.preadv(file.fileno(), [room[read:]], log_offset - base + read)
                if not more:
                    break
                read += more
        except OSError as error:
            raise DiskError("read", file.path, error) from error
        return read

    def segment_of(self, log_offset: int) -> tuple[int, DiskFile]:
        """The file that has this place of the log, and where it begins; it is open until the next.

        Raises:
            DiskError: If it cannot be opened; it may have been removed meanwhile.
        """
        segment = self._segment
        # Asked for each run of records, so the usual answer comes first.
        if segment is None or not 0 <= log_offset - segment[0] < self.log.segment_bytes:
            segment = self._opened(log_offset)
        return segment

    def begins_later(self) -> bool:
        """Look at the log's files again; whether the oldest ones were removed meanwhile.

        Raises:
            LogNotFound: If it cannot be read any more.
        """
        before = self.log.first_offset
        self.log.close()
        try:
            self.log = log_files(self._disk, self._layout.commit_log)
        except (DiskError, StoreError) as error:
            raise LogNotFound(self.path, f"cannot be read ({error})") from error
        return self.log.first_offset > before

    def _opened(self, log_offset: int) -> tuple[int, DiskFile]:
        if self._segment is not None:
            self._segment[1].close()
            self._segment = None
        path, base = self.log.path_of(log_offset), self.log.base_of(log_offset)
        self._segment = (base, self._disk.open(path, writable=False))
        return self._segment

    @cached_property
    def queue_ids(self) -> dict[str, set[int]]:
        """Every topic, and the numbers of its queues, with or without messages."""
        found = self._table_topics()
        for topic, queue_id in self._tail:
            found.setdefault(topic, set()).add(queue_id)
        for topic in self._names(self._layout.queues):
            numbers = self._names(self._layout.queues / topic)
            ids = {int(name) for name in numbers if name.isascii() and name.isdigit()}
            if ids:
                found.setdefault(topic, set()).update(ids)
        return found

    def _table_topics(self) -> dict[str, set[int]]:
        """What the broker's table of topics says; a directory may have none."""
        try:
            table = Snapshot(self._disk, self._layout.config / "topics.json").load(_topic_table)
        except StoreError:
            return {}
        return table or {}

    def _names(self, directory: Path) -> list[str]:
        try:
            return list(self._disk.names(directory))
        except DiskError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return []
            raise

    def queue(self, topic: str, queue_id: int) -> QueueView:
        """The entries of one queue, as far as they may be shown."""
        view = self._queues.get((topic, queue_id))
        if view is None:
            directory = self._layout.queue(topic, queue_id)
            tail = self._tail.get((topic, queue_id))
            view = QueueView(self._disk, directory, self.confirmed, tail, self._near)
            self._near = view.written
            if self.confirmed is None:
                view.cut_where(lambda at: not self._is_whole(at))
            self._queues[topic, queue_id] = view
        return view

    def entries(self, topic: str, queue_id: int, start: int, end: int) -> Entries:
        """The entries of a range that is known to be there: whoever planned it has looked."""
        if start < end and (topic, queue_id) not in self._queues:
            found = self._planned_queue(topic, queue_id).entries(start, end)
            if found is not None:
                return found
        return self.queue(topic, queue_id).entries(start, end)

    def _planned_queue(self, topic: str, queue_id: int) -> PlannedQueue:
        """One of those that are asked for in turns; the files of not too many stay open."""
        planned = self._planned.pop((topic, queue_id), None)
        if planned is None:
            planned = PlannedQueue(self._disk, self._layout.queue(topic, queue_id))
        self._planned[topic, queue_id] = planned
        if len(self._planned) > _MAX_PLANNED:
            self._planned.pop(next(iter(self._planned))).close()
        return planned

    def ends(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The offset of the oldest message that the log still has, and of the one to come next."""
        view = self.queue(topic, queue_id)
        return view.first_behind(self.log.first_offset), view.end

    def stored_ms(self, log_offset: int) -> int:
        """When the record at an offset of the log was stored; −1 if the log does not have it."""
        if not self.log.first_offset <= log_offset < self.log.end:
            return -1
        try:
            head = self.log.read(log_offset, _HEAD_BYTES)
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
            return -1  # removed since this looked
        if len(head) < _HEAD_BYTES:
            return -1
        at = _STORED_AT + (12 if head[_SYS_FLAG_AT + 3] & 0x10 else 0)
        return int.from_bytes(head[at : at + 8], "big", signed=True)

    def _is_whole(self, log_offset: int) -> bool:
        try:
            self.log.record_at(log_offset)
        except (RecordError, DiskError):
            # What was removed was whole once; what lies behind the log never was.
            return log_offset < self.log.first_offset
        return True

    @cached_property
    def _tail(self) -> dict[tuple[str, int], tuple[Ints, Entries]]:
        """By queue, what follows from the end of the log: offsets, and the entries they have.

        It reaches back to where the files are known to be complete: for a broker that runs, that
        is seconds, and never more than the entries it keeps back.
        """
        if self.confirmed is None or not self.log.bases:
            return {}
        at, stop = max(self._complete_to, int(self.log.first_offset)), int(self.confirmed)
        found: dict[tuple[str, int], list[tuple[Ints, Entries]]] = {}
        for topic, queue_id, offsets, entries in _walked(self.log, at, min(stop, self.log.end)):
            found.setdefault((topic, queue_id), []).append((offsets, entries))
        return {
            queue: (
                np.concatenate([offsets for offsets, _ in pieces]),
                np.concatenate([entries for _, entries in pieces]),
            )
            for queue, pieces in found.items()
        }


def _store_beside(path: Path) -> Path | None:
    """The store that a directory is in, or holds: one step too deep, or too high."""
    with suppress(OSError):
        for near in (path.parent, *islice(path.iterdir(), _MOST_LOOKED_AT)):
            if StoreLayout(near).commit_log.is_dir():
                return near
    return None


def log_files(disk: Disk, directory: Path) -> LogFiles:
    """The files of a log; the oldest may be removed while this looks at them.

    Raises:
        DiskError: If they cannot be read.
        OddSegment: If they do not follow each other.
    """
    for _ in range(_LOOKS):
        try:
            return LogFiles(disk, directory)
        except DiskError as error:
            if error.errno != errno.ENOENT or not directory.is_dir():
                raise
    return LogFiles(disk, directory)


def _walked(log: LogFiles, at: int, stop: int) -> Iterator[tuple[str, int, Ints, Entries]]:
    """Step through a part of the log; gives, chunk by chunk, what belongs to each queue."""
    while at < stop:
        segment_end = log.base_of(at) + log.segment_bytes
        data = log.read(at, min(_CHUNK_BYTES, segment_end - at, stop - at))
        starts, sizes, walked, ended = whole_records(data, at, segment_end)
        if starts.size:
            for topic, queue_id, offsets, rows in queued_in(data, starts, sizes):
                entries = np.empty(rows.size, ENTRY)
                entries["at"] = starts[rows] + at
                entries["size"] = sizes[rows]
                entries["tag"] = NO_TAG_CODE
                yield topic, queue_id, offsets, entries
        at = segment_end if ended else at + walked
        if not walked and not ended:
            return  # a record that is not there as a whole: nothing behind it counts


def _topic_table(text: bytes) -> dict[str, set[int]]:
    table = json.loads(text).get("topicConfigTable")
    if not isinstance(table, dict):
        return {}
    found = {}
    for topic, settings in table.items():
        count = settings.get("readQueueNums") if isinstance(settings, dict) else None
        if isinstance(count, int) and 0 < count <= 65_536:
            found[topic] = set(range(count))
    return found
