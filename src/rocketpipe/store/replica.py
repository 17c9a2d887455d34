"""How a store passes its log on, and takes the log of another store.

    leader     read ──────────▶ bytes ──▶ RawGroups ──▶ take_in     follower
    follower that is to lead:   adopt_tail, then messages of its own

What a follower has behind its dispatched end nobody has read yet: neither its queues nor what they
will give next know of it. Before the store gives offsets by itself it has to look there, or it
would give some of them twice.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketpipe.errors import StoreError
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import RecordView
from rocketpipe.store.derived.derived_files import DerivedFiles
from rocketpipe.store.errors import RecordMissing, StoreFailed
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.layout import check_queue
from rocketpipe.store.log.commit_log import CommitLog
from rocketpipe.store.log.flusher import Flusher
from rocketpipe.store.log.puts import Chunk
from rocketpipe.store.log.raw_groups import RawPiece
from rocketpipe.store.log.store_times import StoreTimes
from rocketpipe.store.log.writer import LogWriter
from rocketpipe.store.state.checkpoint import NEVER, Checkpoint
from rocketpipe.store.state.health import Health
from rocketpipe.store.state.positions import Positions


class Replica:
    """The log of a store as bytes that are the same in every replica."""

    def __init__(
        self,
        commit_log: CommitLog,
        positions: Positions,
        derived: DerivedFiles,
        checkpoint: Checkpoint,
        flusher: Flusher,
        writer: LogWriter,
        health: Health,
        times: StoreTimes,
        *,
        checksum: bool,
    ) -> None:
        """``checksum`` says whether records of our own get one."""
        self._log = commit_log
        self._positions = positions
        self._derived = derived
        self._checkpoint = checkpoint
        self._flusher = flusher
        self._writer = writer
        self._health = health
        self._times = times
        self._checksum = checksum

    def read(self, offset: LogOffset, most: int, *, cached_only: bool) -> bytes | None:
        """Bytes of the log as `MessageStore.raw_at` gives them."""
        first, end = self._log.first_offset, self._positions.written
        if offset < first:
            raise RecordMissing(offset, first, end)
        size = min(most, end - offset)
        if size <= 0:
            return b""
        if not cached_only:
            return self._log.run.read_apart(offset, size)
        segment = self._log.run.find(offset)
        return b"" if segment is None else segment.read_cached(offset, size)

    def take_in(self, piece: RawPiece) -> None:
        """Write whole groups of the leader's log at the end of this one."""
        self._health.check_append(raw=True)
        if piece.at != self._positions.written:
            raise StoreError(f"groups from {piece.at} on, where the log ends at {self._end}")
        # Until the tail was looked at, messages of our own would get offsets that are taken.
        self._health.follows = True
        if piece.sealed_from > self._log.sealed_from:
            self._seal_from(piece.sealed_from, durably=True)
        self._writer.write(self._chunks(piece), piece.end)
        self._positions.written = piece.end
        self._derived.dispatcher.took_in(piece.data, piece.at)
        self._health.has_room()
        if piece.records:
            self._times.follow(piece.stored_ms)
            self._flusher.wrote(piece.end, piece.last_record, piece.stored_ms)
        # Else it is a filler, which is not the end of a log that is opened.
        if piece.sealed_from < self._log.sealed_from:
            self._seal_from(piece.sealed_from)

    @property
    def _end(self) -> int:
        return int(self._positions.written)

    def _chunks(self, piece: RawPiece) -> list[Chunk]:
        """The bytes of a piece by segments."""
        size, at, data = self._log.segment_bytes, int(piece.at), piece.data
        room = size - at % size
        if len(data) <= room:
            return [(at, data)]
        chunks = [(at, data[:room])]
        for place in range(room, len(data), size):
            chunks.append((at + place, data[place : place + size]))
        return chunks

    def _seal_from(self, offset: int, *, durably: bool = False) -> None:
        """Say from where on records must have a checksum; before one comes that has none."""
        try:
            self._checkpoint.seal_from(offset)
            if durably:
                self._checkpoint.sync()
        except DiskError as error:
            raise self._writer.failed(str(error)) from error
        self._log.sealed_from = offset

    def begin_at(self, offset: LogOffset) -> None:
        """Have a log that is empty begin at a multiple of its segments' length."""
        self._health.check_append(raw=True)
        run, positions = self._log.run, self._positions
        if positions.written != self._log.first_offset:
            raise StoreError(f"the log is not empty: it goes from {run.first} to {self._end}")
        if offset % run.size:
            raise StoreError(f"no segment of {run.size} bytes begins at {offset}")
        self._health.follows = True
        try:
            if run.segments and run.first != offset:
                self._checkpoint.rewind(0, -1, 0, 0)
                self._checkpoint.sync()
                run.destroy()
            if not run.segments:
                run.create_next(base=offset)
            positions.rewind(offset, dispatched=offset)
            positions.begin_acknowledged(offset)
            self._derived.dispatcher.begin_at(offset)
            # The segment is durable first: a checkpoint may not speak of what is not there.
            self._checkpoint.rewind(offset, -1, offset, 0)
            self._checkpoint.sync()
        except DiskError as error:
            raise self._writer.failed(str(error)) from error
        self._flusher.begin(offset, -1, 0)

    def spent_queues(self) -> Iterator[tuple[str, int, QueueOffset]]:
        """The queues that have given offsets and of which the log has no message left."""
        queues = self._derived.queues
        for topic, queue_id in queues.queues():
            following = queues.next_offset(topic, queue_id)
            if 0 < following == queues.min_offset(topic, queue_id):
                yield topic, queue_id, following

    def begin_queue(self, topic: str, queue_id: int, at: QueueOffset) -> None:
        """Have a queue of which the log has had no message begin at an offset other than 0."""
        check_queue(topic, queue_id)
        queues = self._derived.queues
        if at > 0 and not queues.next_offset(topic, queue_id):
            queues.append(topic, queue_id, b"", at)

    def tail(self) -> Iterator[tuple[LogOffset, bytes]]:
        """The records behind what was dispatched."""
        return self._log.walk(self._positions.dispatched, self._positions.written)

    def tail_of(self, topic: str) -> Iterator[tuple[LogOffset, RecordView]]:
        """The same of one topic, to be read."""
        for at, record in self.tail():
            self._derived.dispatcher.queued(record, at)
            view = RecordView(record)
            if view.topic == topic:
                yield at, view

    def adopt_tail(self) -> int:
        """Find out which offsets the tail has taken, and give the next ones from here on."""
        if self._health.failure is not None:
            raise StoreFailed(self._health.failure.reason)
        queues = self._derived.queues
        count = 0
        for at, record in self.tail():
            count += 1
            queued = self._derived.dispatcher.queued(record, at)
            if queued is not None and queued.offset >= queues.next_offset(*queued[:2]):
                queues.raise_next(queued.topic, queued.queue_id, QueueOffset(queued.offset + 1))
        if not self._checksum:
            self._seal_from(NEVER, durably=True)
        elif self._log.sealed_from > self._end:
            self._seal_from(self._end)
        self._health.follows = False
        return count
