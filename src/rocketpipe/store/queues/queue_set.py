"""Every consume queue of a store.

    consumequeue/<topic>/<queue id>/    the entries of one queue
    sums/queues.json                    checksums of what was synced last, and up to which record

The second is ours, see ``queue_sums``. After a crash the queues are cut back to what it says, and
the dispatcher goes on from there.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.errors import QueueDamaged
from rocketpipe.store.files.background_sync import PendingSync, Steps, pause, run_steps_blocking
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.queues.consume_queue import ConsumeQueue
from rocketpipe.store.queues.entries import QUEUE_ENTRY_BYTES
from rocketpipe.store.queues.queue_sums import Queue, QueueSums

log = logging.getLogger(__name__)

#: From so many queues on, one sync of everything takes less than one of each.
_MANY_QUEUES: Final = 200
#: With so many queues at a time it is found out what of them has expired.
_EXPIRED_AT_ONCE: Final = 100
#: So many are written at a time when much waits.
_WRITTEN_AT_ONCE: Final = 200
MAX_QUEUE_ID: Final = 0x7FFFFFFF
_TOPIC: Final = re.compile(r"[%|a-zA-Z0-9_+-]{1,255}")


def check_name(topic: str, queue_id: int) -> None:
    """Refuse what no queue can be called.

    Raises:
        ValueError: It is not.
    """
    if not _TOPIC.fullmatch(topic) or not 0 <= queue_id <= MAX_QUEUE_ID:
        raise ValueError(f"no queue is called {topic!r} {queue_id}")


def _as_it_is(queue: Queue, damage: QueueDamaged) -> None:
    raise damage


class QueueSet:
    """Queues by topic and queue id, and the offset that each one's next message gets."""

    def __init__(
        self, disk: Disk, files: OpenFiles, directory: Path, sums: Path, file_bytes: int
    ) -> None:
        """Take a directory of queues; call `recover` before anything else if it has any.

        ``file_bytes`` is the size of new files if there are none.
        """
        self._disk = disk
        self._files = files
        self._directory = directory
        self._sums = QueueSums(disk, sums)
        self._file_bytes = file_bytes
        self._queues: dict[Queue, ConsumeQueue] = {}
        self._next: dict[Queue, int] = {}
        self._waiting: set[Queue] = set()
        self.unsynced: set[Queue] = set()
        self._round: list[Queue] = []
        self._round_to: LogOffset | None = None
        self._synced_to = LogOffset(0)
        files.watch(directory.parent)
        #: Every record before it has its entry here. The dispatcher moves it.
        self.holds_to = LogOffset(0)
        #: How much waits in memory to be written.
        self.pending_bytes = 0
        #: Told of each queue that is found damaged where nobody who asked for it would see it.
        self.on_damage: Callable[[Queue, QueueDamaged], None] = _as_it_is

    @property
    def synced_to(self) -> LogOffset:
        """Every entry of every record before it survives a power cut."""
        return self._synced_to

    def recover(
        self, log_first: LogOffset, log_end: LogOffset, trusted_to: LogOffset, *, clean: bool
    ) -> LogOffset:
        """Take over the files; gives the offset in the log from which to dispatch again.

        ``trusted_to`` is for queues that another broker wrote, or whose checksums are gone: the
        offset before which they are believed to be complete. ``clean`` says that nothing was
        written after the last sync.

        Raises:
            DiskError: The files cannot be read, or not be cut.
        """
        known = self._sums.load()
        start = LogOffset(min(trusted_to, log_end)) if known is None else known[0]
        if start > log_end or start < log_first:
            # The log was cut, or its start has gone, since.
            start = LogOffset(max(log_first, min(start, log_end)))
            clean = False
        sums = {} if known is None else known[1]
        uncut = known is not None and known[0] <= log_end
        for topic, queue_id in self._found():
            queue = self._open(topic, queue_id)
            expected = None if known is None else sums.get((topic, queue_id), (0, []))[1]
            whole = queue.recover(
                log_first, log_end if known is None else start, expected, clean=clean
            )
            if known is None and start < queue.log_end:
                queue.truncate(start)
                if queue.max_offset == queue.first_offset:
                    # An earlier file may be gone, whose name was not synced: the log has it all.
                    queue.destroy()
            self._next[topic, queue_id] = queue.max_offset
            if queue.unsynced:
                self.unsynced.add((topic, queue_id))
            if not whole:
                start = self._again(topic, queue_id, start, log_first)
        for (topic, queue_id), (max_offset, expected) in sums.items():
            if (topic, queue_id) not in self._queues:
                self._open(topic, queue_id)
                if expected:
                    start = self._again(topic, queue_id, start, log_first)
            queue = self._queues[topic, queue_id]
            if queue.max_offset == 0 and uncut:
                # Its messages are gone from the log, or will come again from there: either way
                # their offsets are not given to others.
                self._next[topic, queue_id] = max_offset
                if not expected:
                    queue.start_at(QueueOffset(max_offset))
        for key, queue in self._queues.items():
            self._sums.describe(key, queue)
        self.holds_to = self._synced_to = start
        return start

    def _again(
        self, topic: str, queue_id: int, start: LogOffset, log_first: LogOffset
    ) -> LogOffset:
        good_to = max(log_first, self._queues[topic, queue_id].log_end)
        log.warning(
            "queue is written again from the log topic=%s queue_id=%d from=%d",
            topic,
            queue_id,
            good_to,
        )
        return LogOffset(min(start, good_to))

    def _found(self) -> Iterator[Queue]:
        if self._directory.name not in self._disk.names(self._directory.parent):
            return
        for topic in self._disk.names(self._directory):
            if not _TOPIC.fullmatch(topic):
                log.warning("no topic has this name, and it is left alone name=%r", topic)
                continue
            for name in self._disk.names(self._directory / topic):
                if name.isascii() and name.isdigit() and str(int(name)) == name:
                    yield topic, int(name)

    def _open(self, topic: str, queue_id: int) -> ConsumeQueue:
        directory = self._directory / topic / str(queue_id)
        queue = ConsumeQueue(self._disk, self._files, directory, self._file_bytes)
        self._queues[topic, queue_id] = queue
        return queue

    def queues(self) -> Iterator[Queue]:
        """Every queue that has, or had, an entry."""
        return iter(list(self._queues))

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """One queue, if it is there."""
        return self._queues.get((topic, queue_id))

    def next_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """The offset that the queue's next message gets."""
        return QueueOffset(self._next.get((topic, queue_id), 0))

    def raise_next(self, topic: str, queue_id: int, to: QueueOffset) -> None:
        """Say that the log has messages of the queue with offsets up to below ``to``."""
        assert to >= self._next.get((topic, queue_id), 0)
        self._next[topic, queue_id] = to

    def append(self, topic: str, queue_id: int, entries: bytes, first: QueueOffset) -> None:
        """Add entries, the first of them at ``first``; to add some again is no harm.

        Raises:
            ValueError: No queue can have this name.
            QueueDamaged: They were there, and cannot be compared.
            DiskError: As before.
        """
        key = (topic, queue_id)
        queue = self._queues.get(key)
        if queue is None:
            check_name(topic, queue_id)
            queue = self._open(topic, queue_id)
        self.pending_bytes += queue.append(entries, first)
        self._waiting.add(key)
        end = first + len(entries) // QUEUE_ENTRY_BYTES
        if end > self._next.get(key, 0):
            self._next[key] = end

    def entries(self, topic: str, queue_id: int, offset: QueueOffset, count: int) -> bytes:
        """Give up to ``count`` entries of a queue; none of a queue that is not there.

        Raises:
            QueueDamaged: They are not as they were written.
            DiskError: They cannot be read.
        """
        queue = self._queues.get((topic, queue_id))
        if queue is None or offset < queue.first_offset:
            return b""
        return queue.entries(offset, count)

    def min_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """The first message of a queue that is still in the log."""
        queue = self._queues.get((topic, queue_id))
        return queue.min_offset if queue else QueueOffset(0)

    def max_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """Where a queue ends for readers: behind its last dispatched message."""
        queue = self._queues.get((topic, queue_id))
        return queue.max_offset if queue else QueueOffset(0)

    def flush_some(self) -> None:
        """Write what waits in memory, of some queues; others have their turn with the next call."""
        for key in list(islice(self._waiting, _WRITTEN_AT_ONCE)):
            self._waiting.discard(key)
            self.unsynced.add(key)
            self._write_pending(key)

    def flush_pending(self) -> None:
        """Write what waits in memory; it is in the page cache on return.

        Raises:
            DiskError: Not all of it was; the rest waits on, and is readable as before.
        """
        while self._waiting:
            key = self._waiting.pop()
            self.unsynced.add(key)
            self._write_pending(key)

    def _write_pending(self, key: Queue) -> None:
        queue = self._queues[key]
        before = queue.pending_bytes
        try:
            queue.write_pending()
        finally:
            self.pending_bytes -= before - queue.pending_bytes
            if queue.pending_bytes:
                self._waiting.add(key)
            else:
                self._waiting.discard(key)

    def sync(self, limit: int | None = None) -> bool:
        """Make files durable, at most ``limit`` queues of them; True when a round is complete.

        A round covers everything dispatched when it began: ``synced_to`` then moves to there. With
        many queues a round is spread over several calls, so that none takes long.

        Raises:
            DiskError: Something may not be durable. The files are not to be synced again.
        """
        self._begin_round()
        if limit is None and len(self._round) >= _MANY_QUEUES:
            self._sync_at_once()
        while self._round:
            self._begin_some(1).now()
            if limit is not None:
                limit -= 1
                if limit <= 0:
                    break
        if self._round:
            return False
        self._begin_last().now()
        return True

    def begin_sync(self, limit: int) -> tuple[PendingSync, bool]:
        """Have files become durable, at most ``limit`` queues of them; True for the last portion.

        A portion is begun when the one before it was noted or undone. After the last, `synced_to`
        is where the round began.

        Raises:
            DiskError: Something cannot be written, or not be opened.
        """
        self._begin_round()
        if self._round:
            return self._begin_some(limit), False
        return self._begin_last(), True

    def give_up_round(self) -> None:
        """Leave what is left of a round to the next one, which begins anew."""
        self.unsynced.update(self._round)
        self._round.clear()
        self._round_to = None

    def _begin_round(self) -> None:
        if self._round_to is None:
            self._round_to = self.holds_to
            self._round = list(self.unsynced | self._waiting)
            self.unsynced.clear()

    def _begin_some(self, limit: int) -> PendingSync:
        keys = self._round[-limit:]
        if any(self._queues[key].is_new for key in keys):
            keys = keys[-max(1, limit // 4) :]  # to make a file takes longer than to write to one
        begun: list[PendingSync] = []
        try:
            for key in keys:
                self._write_pending(key)
                begun.append(self._queues[key].begin_sync())
        except BaseException:
            PendingSync.of(begun).undo()
            raise
        del self._round[-len(keys) :]
        files = PendingSync.of(begun)

        def note() -> None:
            files.note()
            for key in keys:
                self._sums.describe(key, self._queues[key])

        def undo() -> None:
            files.undo()
            self._round += keys

        return PendingSync(files.wait, note, undo)

    def _begin_last(self) -> PendingSync:
        """What is done once for all: many queues are in few directories, and in one list."""
        round_to = self._round_to
        assert round_to is not None
        directories = self._files.begin_sync_directories()
        text = self._sums.text(round_to, self._queues)

        def wait() -> None:
            directories.wait()
            self._sums.save(text)
            self._files.remove_doomed()

        def note() -> None:
            directories.note()
            self._synced_to, self._round_to = round_to, None

        return PendingSync(wait, note, directories.undo)

    def _sync_at_once(self) -> None:
        """Sync what is left of a round with one call, where the system has one."""
        for key in self._round:
            self._write_pending(key)
        if self._files.sync_everything():
            for key in self._round:
                self._queues[key].was_synced()
                self._sums.changed(key)
            self._round.clear()

    def truncate(self, log_end: LogOffset) -> None:
        """Drop the entries of records that are not before ``log_end``, durably.

        Raises:
            DiskError: The files cannot be cut.
        """
        for key, queue in self._queues.items():
            queue.truncate(log_end)
            self._next[key] = queue.max_offset
            if queue.unsynced:
                self.unsynced.add(key)
        self.pending_bytes = sum(queue.pending_bytes for queue in self._queues.values())
        self.holds_to = LogOffset(min(self.holds_to, log_end))
        self._round_to = None
        self.unsynced.update(self._round)
        self._sums.all_changed()
        self.sync()

    def delete_before(self, log_offset: LogOffset) -> int:
        """Remove the files that speak only of records below ``log_offset``; gives how many.

        Raises:
            DiskError: A file cannot be removed.
        """
        removed = run_steps_blocking(self.expiring(log_offset))
        self.begin_delete(removed).now()
        return removed

    def expiring(self, log_offset: LogOffset) -> Steps[int]:
        """Do without the files that speak only of records below ``log_offset``; gives how many.

        Between two steps others have their turn. A queue whose own has not come shows messages that
        are gone; who reads them is told so.

        Raises:
            DiskError: An entry cannot be read.
        """
        removed = 0
        for number, (key, queue) in enumerate(list(self._queues.items()), 1):
            try:
                if gone := queue.delete_before(log_offset):
                    removed += gone
                    self._sums.changed(key)
            except QueueDamaged as damage:
                self.on_damage(key, damage)  # its turn comes when it is right again
            if queue.unsynced:
                self.unsynced.add(key)
            if number % _EXPIRED_AT_ONCE == 0:
                yield pause
        return removed

    def begin_delete(self, removed: int) -> PendingSync:
        """Have so many files go that `expiring` did without."""
        text = self._sums.text(self._synced_to, self._queues) if removed else None

        def wait() -> None:
            if text is not None:
                # Or a crash would have them looked for, and the queues written again.
                self._sums.save(text)
            self._files.remove_doomed()

        return PendingSync(wait)

    def check_again(self, topic: str, queue_id: int, offset: QueueOffset, count: int) -> None:
        """Compare the files that have entries with their checksums, whenever that was last done.

        Raises:
            QueueDamaged: It is not as it was written.
            DiskError: It cannot be read.
        """
        queue = self._queues.get((topic, queue_id))
        if queue is not None:
            queue.check_again(offset, count)

    def look_again(self) -> None:
        """Have small files compared with their checksums once more when they are next read."""
        self._files.age += 1

    def delete(self, topic: str, queue_id: int) -> None:
        """Forget a queue for good, which a crash knows of after the next complete `sync`.

        That removes the files too, unless a new queue of this name needs theirs before.
        """
        queue = self._queues.get((topic, queue_id))
        if queue is not None:
            self.pending_bytes -= queue.pending_bytes
            queue.doom()
            self._sums.changed((topic, queue_id))
            self.unsynced.add((topic, queue_id))
