"""One connection to a leader: its bytes become this replica's log, and how far is reported.

    hello      refuse who was replaced; join its epoch, on disk; see where the two logs part
    overlap    compare the last bytes of both, where nothing else says that the log is the same
    transfer   whole groups, each record checked, go to the log; the rest waits for more
    report     once a read: the end of the last whole group, written or, with SYNC_FLUSH, synced

A connection belongs to one epoch, and every report on it too. Bytes are handled where they arrive,
as many at once as the loop can spare, so there is nothing to queue; only a full disk makes the
rest of one read wait, and reading with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, cast

from rocketpipe.broker.config.replication import ReplicationConfig
from rocketpipe.broker.replication.epochs import EpochEntry, EpochTable
from rocketpipe.broker.replication.following.agreement import (
    BeginAt,
    CutNeeded,
    EpochStale,
    NothingInCommon,
    agree,
)
from rocketpipe.broker.replication.following.leader_clock import LeaderClock
from rocketpipe.broker.replication.following.overlap import Overlap
from rocketpipe.broker.replication.frames import (
    Dialect,
    FollowerSide,
    HaProtocolError,
    LeaderHello,
    Transfer,
)
from rocketpipe.broker.replication.joined import JoinedEpoch
from rocketpipe.clock import Clock
from rocketpipe.errors import ConnectionLost, StoreError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import FlushMode
from rocketpipe.store.errors import RecordCorrupt, StoreFull
from rocketpipe.store.log.raw_groups import RawGroups, RawPiece
from rocketpipe.store.message_store import MessageStore

log = logging.getLogger(__name__)

#: As much is taken in at once; the loop has its turn in between.
READ_BYTES: Final = 256 << 10
#: So many ends of groups are remembered behind what is acknowledged; of more, every second goes.
_MOST_ENDS: Final = 4_096


class Incoming(asyncio.BufferedProtocol):
    """The follower's end of one connection; ``ended`` gives what ended it."""

    def __init__(
        self,
        store: MessageStore,
        epochs: EpochTable,
        joined: JoinedEpoch,
        clock: Clock,
        config: ReplicationConfig,
        *,
        me: int,
        address: str,
        dialect: Dialect,
        learner: bool,
        ours: bool,
        leader_clock: LeaderClock,
        moved: Callable[[], None],
    ) -> None:
        """Take the log, what is remembered of its leaders, and who is told that more is shown."""
        self._store = store
        self._epochs = epochs
        self._joined = joined
        self._clock = clock
        self._config = config
        self._me = me
        self._address = address
        self._learner = learner
        self._ours = ours
        self._leader_clock = leader_clock
        self._moved = moved
        self._side = FollowerSide(dialect)
        self._plain = dialect is Dialect.PLAIN
        self._sync = store.config.flush is FlushMode.SYNC
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self.ended: asyncio.Future[Exception] = self._loop.create_future()

        #: What was read and could not be handled yet, as the disk is full.
        self._events: deque[LeaderHello | Transfer] = deque()
        self._piece: RawPiece | None = None
        self._full: StoreFull | None = None

        self._epoch = -1
        #: The leader's epochs, as it said hello.
        self._told: Sequence[EpochEntry] = ()
        self._greeted = self._plain
        #: No epoch is common, so that only a log that begins behind this one's end is accepted.
        self._apart = False
        #: What is compared before anything is taken in, and what is to be done then.
        self._overlap: Overlap | None = None
        self._cut: CutNeeded | None = None
        self._groups: RawGroups | None = None
        #: Where the next bytes are from; what waits to be a whole group is before it.
        self._next = int(store.positions.written)
        self._ends: deque[int] = deque([self._next])
        self._reported = 0
        self._confirmed = -1
        self._shown = int(store.positions.confirmed)

        self._heard_ms = self._wrote_ms = clock.monotonic_ms()
        self._congested = False
        self._awaited = False
        #: For those who watch.
        self.last_read_ms = self.last_write_ms = 0
        self.taken_bytes = 0
        self.leader_end = 0

    # The connection

    @property
    def greeted(self) -> bool:
        """Whether this leader was accepted, and is there."""
        accepted = self._greeted and self._overlap is None
        return accepted and self._transport is not None and not self.ended.done()

    @property
    def full(self) -> StoreFull | None:
        """Why nothing is read now, if the disk has no room."""
        return self._full

    def close(self) -> None:
        """End at once: nothing is appended or reported from here on."""
        self._end(ConnectionLost(self._address, "closed here"))

    def _end(self, reason: Exception) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.ended.done():
            self._transport.abort()
        elif self._plain:
            overlap = Overlap(self._store, self._next, one_file=True)
            self._overlap = overlap if overlap.start < overlap.end else None
            self._report()
        else:
            self._transport.write(self._side.handshake(self._me, learner=self._learner))

    def connection_lost(self, exc: Exception | None) -> None:
        reason = str(exc) if exc else "closed by the leader"
        if not self._greeted:
            reason += f" at once: it may not lead, or know another replica {self._me}; see its log"
        self._end(ConnectionLost(self._address, reason))

    def eof_received(self) -> None:
        """Give up what the leader gave up."""

    def pause_writing(self) -> None:
        self._congested = True

    def resume_writing(self) -> None:
        self._congested = False
        self._report()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.ended.done():
            return
        try:
            events = self._side.receive(self._buffer[:nbytes])
        except HaProtocolError as error:
            self._end(error)
            return
        if events:
            self._events.extend(events)
            self._heard_ms = self._clock.monotonic_ms()
            self.last_read_ms = self._clock.now_ms()
            self._work()

    def tick(self) -> None:
        """Do what time asks for: a heartbeat, an end to a silence, another try at a full disk."""
        if self.ended.done():
            return
        now_ms = self._clock.monotonic_ms()
        if self._full is not None:
            self._heard_ms = now_ms  # it is not the leader who is silent
            self._work()
        elif now_ms - self._heard_ms >= self._config.silence_ms:
            silent_ms = now_ms - self._heard_ms
            self._end(ConnectionLost(self._address, f"silent for {silent_ms} ms"))
        if now_ms - self._wrote_ms >= self._config.heartbeat_ms:
            self._report()

    # What was read

    def _work(self) -> None:
        """Handle what was read, or as much of it as there is room for; then report."""
        try:
            try:
                self._append()
                while self._events:
                    event = self._events.popleft()
                    if isinstance(event, LeaderHello):
                        self._hello(event)
                    else:
                        self._transfer(event)
            except StoreFull as full:
                self._pause(full)
            else:
                self._resume()
            self._report()  # first: senders wait for it
            self._confirm()
        except Exception as error:
            self._end(error)

    def _pause(self, full: StoreFull) -> None:
        assert self._transport is not None
        if self._full is None:
            self._transport.pause_reading()
        self._full = full

    def _resume(self) -> None:
        if self._full is not None and not self.ended.done():
            assert self._transport is not None
            self._full = None
            self._transport.resume_reading()

    def _hello(self, hello: LeaderHello) -> None:
        floor = max(self._joined.epoch, self._epochs.last_epoch)
        if hello.epoch < floor:
            raise EpochStale(hello.epoch, floor)
        self._epoch, self._told = hello.epoch, hello.entries
        self.leader_end = hello.log_end
        self._leader_clock.greeted(hello.log_end)
        # A coordinator gives each epoch to one leader alone. Where roles are fixed, or to a log
        # that was not in this group yet, another may have given the same ones.
        if self._learner or not self._joined.is_of_group:
            self._compare(hello)
        else:
            # Before anything is reported, and before anything is cut on this leader's word.
            self._joined.join(hello.epoch)
            self._apart = not agree(self._store, self._epochs, hello)
        self._greeted = True
        log.info(
            "following leader=%s epoch=%d leader_end=%d from=%d",
            self._address,
            hello.epoch,
            hello.log_end,
            self._next,
        )

    def _compare(self, hello: LeaderHello) -> None:
        """Have bytes compared before the leader is joined, and before anything is cut."""
        try:
            self._apart = not agree(self._store, self._epochs, hello)
        except CutNeeded as cut:
            if cut.to <= self._store.first_offset:
                raise NothingInCommon(f"the leader's begins anew at {cut.to}") from cut
            self._cut = cut
        end = self._next if self._cut is None else int(self._cut.to)
        if self._apart or self._is_empty:
            self._joined.join(hello.epoch)
        else:
            self._overlap = Overlap(self._store, end, one_file=False)

    def _compared(self, transfer: Transfer) -> Transfer | None:
        """What is behind the bytes that both logs have; None while they are being compared."""
        if self._overlap is None:
            return transfer
        rest = self._overlap.compare(transfer)
        if rest is not None:
            if not self._plain:
                self._joined.join(self._epoch)
            if self._cut is not None:
                raise self._cut
            self._overlap = None
        return rest

    @property
    def _is_empty(self) -> bool:
        return self._store.first_offset == self._store.positions.written

    def _transfer(self, told: Transfer) -> None:
        transfer = self._compared(told)
        if transfer is None:
            return
        if self._groups is None:
            self._begin(transfer)
        assert self._groups is not None
        if transfer.offset != self._next:
            raise HaProtocolError(f"bytes from {transfer.offset} where {self._next} is next")
        if not self._plain:
            self._enter(transfer)
            self._confirmed = max(self._confirmed, transfer.confirmed)
        if transfer.data:
            self._next += len(transfer.data)
            self.leader_end = max(self.leader_end, self._next)
            try:
                self._piece = self._groups.add(transfer.data)
            except RecordCorrupt as error:
                raise HaProtocolError(f"the leader sent no good record: {error}") from error
            self._append()

    def _begin(self, first: Transfer) -> None:
        """Find out where the leader begins, by its first word of it.

        Raises:
            BeginAt: Behind the end of this log.
        """
        offset, segment_bytes = first.offset, self._store.commit_log.segment_bytes
        if offset > self._next and (self._is_empty or not self._plain):
            if offset % segment_bytes or not (self._plain or offset <= self.leader_end):
                raise HaProtocolError(
                    f"a log from {offset} to {self.leader_end}, which is no segment's start: is "
                    f"the leader's mappedFileSizeCommitLog {segment_bytes} too?"
                )
            if not self._is_empty:
                raise BeginAt(offset, self._next)
            self._store.begin_at(LogOffset(offset))
            self._next = offset
            self._ends = deque([offset])
            if self._plain:
                log.warning(
                    "the master gives its last file only, older messages are not copied "
                    "master=%s from=%d",
                    self._address,
                    offset,
                )
        elif self._apart:
            raise NothingInCommon(f"the leader goes on at {offset}, where this one ends")
        if self._plain and self._epochs.entries:
            # Whose bytes come now nobody says: no epoch may seem to have written them.
            self._epochs.replace(())
        self._groups = RawGroups(
            LogOffset(self._next),
            segment_bytes,
            sealed_from=self._store.commit_log.sealed_from,
            ours=self._ours,
        )

    def _enter(self, transfer: Transfer) -> None:
        """Note the epoch of bytes before they are appended."""
        (epoch, start), last = self._epoch_of(transfer), self._epochs.last_epoch
        if not last <= epoch <= self._epoch:
            raise HaProtocolError(
                f"bytes of epoch {epoch} behind epoch {last}, from a leader of epoch {self._epoch}"
            )
        if epoch > last:
            if start < self._next and self._epochs.entries:
                raise HaProtocolError(f"epoch {epoch} from {start}, which is an older one's here")
            self._epochs.append(epoch, start)

    def _epoch_of(self, transfer: Transfer) -> tuple[int, int]:
        """Whose bytes these are: what is before the epoch that they are marked with is not its."""
        if transfer.offset >= transfer.epoch_start:
            return transfer.epoch, transfer.epoch_start
        for entry in reversed(self._told):
            if entry.start <= transfer.offset:
                return entry.epoch, entry.start
        raise HaProtocolError(f"bytes from {transfer.offset}, before the leader's first epoch")

    def _append(self) -> None:
        piece = self._piece
        if piece is not None:
            self._store.append_raw(piece)
            self._piece = None
            if piece.stored_ms:  # a filler has no time
                self._leader_clock.stored(piece.end, piece.stored_ms)
            self.taken_bytes += piece.end - piece.at
            self._ends.append(piece.end)
            if len(self._ends) > _MOST_ENDS:
                self._ends = deque(list(self._ends)[1::2])

    # What is shown, and reported

    def _confirm(self) -> None:
        """Show what the leader has confirmed, as far as it is here, up to the end of a group."""
        positions = self._store.positions
        end = int(positions.written)
        to = -1
        if self._plain or self._confirmed >= end:
            to = end
            self._ends.clear()
        while self._ends and self._ends[0] <= self._confirmed:
            to = self._ends.popleft()
        seen = positions.acknowledged
        assert seen is not None
        if self._greeted and to > seen:
            positions.acknowledged = LogOffset(to)
        self._show()

    def _show(self) -> None:
        if self._store.positions.confirmed > self._shown:
            self._shown = int(self._store.positions.confirmed)
            self._moved()

    def _report(self) -> None:
        if self.ended.done() or not self._greeted:
            return
        positions = self._store.positions
        if self._sync and positions.durable < positions.written and not self._awaited:
            self._awaited = True
            self._store.when_durable(positions.written, self._on_synced)
        if self._congested:
            return
        assert self._transport is not None
        end = int(positions.durable if self._sync else positions.written)
        if self._overlap is not None:
            self._reported = self._overlap.start
        elif end <= self._next:  # else it ends with a filler of which not every byte came
            self._reported = end
        self._transport.write(self._side.report(self._reported))
        self._wrote_ms = self._clock.monotonic_ms()
        self.last_write_ms = self._clock.now_ms()

    def _on_synced(self, error: StoreError | None) -> None:
        """Pass on what the thread that syncs has done, or could not do."""
        self._loop.call_soon_threadsafe(self._synced, error)

    def _synced(self, error: StoreError | None) -> None:
        self._awaited = False
        if self.ended.done():
            return
        if error is not None:
            self._end(error)
            return
        try:
            self._show()
            self._report()
        except Exception as failed:
            self._end(failed)
