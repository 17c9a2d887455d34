"""One follower's connection at the leader: what it said, and what it is sent next.

    handshake → hello ─┐
                       ├→ first report → from where → chunks of the log, one a turn of the loop,
        (plain) ───────┘                              unless the transport is full, too much is on
    reports ← what the follower has                   its way, or it had its share of this second

Nothing that comes from outside counts before it was checked, and who says what cannot be is closed.
What lies only on the disk is read on a thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, cast

from rocketpipe.broker.config.replication import ReplicationConfig
from rocketpipe.broker.replication.epochs import EpochSpans, EpochTable
from rocketpipe.broker.replication.frames import (
    HANDSHAKE_MS,
    READER_ID,
    Dialect,
    Handshake,
    HaProtocolError,
    LeaderSide,
    Report,
)
from rocketpipe.broker.replication.leading.pursuit import Pursuit
from rocketpipe.broker.replication.leading.traffic import Traffic
from rocketpipe.clock import Clock
from rocketpipe.errors import StoreError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.log.raw_groups import MOST_BYTES
from rocketpipe.store.message_store import MessageStore

log = logging.getLogger(__name__)

#: What goes to followers of ours at once; Apache's have a setting.
CHUNK_BYTES: Final = 256 << 10
#: What may be in the transport's hands, and what may be on its way and not reported: followers
#: report whole groups, so the longest of them has to fit.
HIGH_WATER_BYTES: Final = 256 << 10
WINDOW_BYTES: Final = MOST_BYTES + (8 << 20)
#: How often followers of ours hear something, and how soon of a confirm offset that has moved.
BEAT_MS: Final = 500
CONFIRM_MS: Final = 5
#: Where nobody waits for followers, frames that are not full go no quicker one after the other.
PACE_S: Final = 0.001
_TICK_MS: Final = 100


class Leading(Protocol):
    """What a connection knows of the leader that it belongs to."""

    #: The epoch that it leads in.
    epoch: int

    def objection(self, follower: Outgoing) -> str | None:
        """Why a follower that has said who it is may not take part; None takes it in."""
        ...

    def reported(self, follower: Outgoing, *, first: bool) -> None:
        """A follower's word on what it has, which was checked."""
        ...

    def is_in_sync(self, follower: Outgoing) -> bool:
        """Whether senders wait for it: then it is not held back."""
        ...

    def refused(self, follower: Outgoing, reason: str) -> None:
        """A connection is closed for what came over it."""
        ...

    def lost(self, follower: Outgoing) -> None:
        """A connection has ended; nothing that it said counts any more."""
        ...

    async def read_cold(self, offset: LogOffset, most: int) -> bytes:
        """Read from the log on a thread."""
        ...


class Outgoing(asyncio.Protocol):
    """Sends the log to one follower, never more than is bounded above."""

    def __init__(
        self,
        leading: Leading,
        store: MessageStore,
        epochs: EpochTable,
        clock: Clock,
        config: ReplicationConfig,
        on_lost: Callable[[Outgoing], None] = lambda _: None,
    ) -> None:
        self._leading = leading
        self._store = store
        self._positions = store.positions
        self._epochs = epochs
        self._clock = clock
        self._config = config
        self._on_lost = on_lost
        self._side = LeaderSide()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._paused = False
        self._scheduled = False
        self._waited_for = config.waits
        #: When it was last sent a part of the log, on the loop's clock.
        self._shipped_at = self._loop.time() - PACE_S
        self._reading = False
        self._deciding = False
        self._telling = False
        self._from_last_file = False
        self.address = "unconnected"
        #: Who it is, in the epochs dialect.
        self.id: int | None = None
        self.learner = False
        #: What it has, by its last report; −1 before the first.
        self.end = -1
        #: Where its log began to be sent, and the offset that is sent next.
        self.start = 0
        self.sent = 0
        #: Whether its reports count: it has the whole log, or took in what it was sent.
        self.counts = False
        self._is_known = False
        #: When something came from it, on the monotonic clock.
        self.heard_ms = clock.monotonic_ms()
        self.pursuit = Pursuit(self.heard_ms)
        self._spoke_ms = self.heard_ms
        self._told = -1
        self._spans = EpochSpans(epochs)
        self._tick_ms = min(_TICK_MS, config.heartbeat_ms)
        self.traffic = Traffic(
            self.heard_ms, most_per_second=config.catch_up_bytes, tick_ms=self._tick_ms
        )

    @property
    def dialect(self) -> Dialect | None:
        """How it talks; None before that is known."""
        return self._side.dialect

    @property
    def is_reader(self) -> bool:
        """Whether it only reads: then nobody waits for it, and nothing that it says counts."""
        return self.learner and self.id == READER_ID

    @property
    def is_stranger(self) -> bool:
        """Whether it has not shown yet that it has the log, or takes it in."""
        return not self._is_known

    @property
    def is_open(self) -> bool:
        """Whether it takes part."""
        return not self._closed

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        peer = transport.get_extra_info("peername")
        if peer:
            self.address = f"{peer[0]}:{peer[1]}"
        if self._closed:
            self._transport.abort()
            return
        self._run(self._tend())

    def data_received(self, data: bytes) -> None:
        if self._closed:
            return
        self.heard_ms = self._clock.monotonic_ms()
        try:
            events = self._side.receive(data)
        except HaProtocolError as error:
            self.refuse(str(error))
            return
        self._take(events)
        if self._side.undecided and not self._deciding:
            self._deciding = True
            self._run(self._decide())

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.abort()

    # Its end

    def refuse(self, reason: str) -> None:
        """Close it for what came over it."""
        if not self._closed:
            self._leading.refused(self, reason)
            self.abort()

    def abort(self) -> None:
        """End it at once: nothing is sent, and nothing taken, after this."""
        if self._closed:
            return
        self._closed = True
        for task in self._tasks:
            task.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._leading.lost(self)
        self._on_lost(self)

    # What it says

    async def _decide(self) -> None:
        """Take a plain report for one, though it may be the half of a handshake."""
        await self._clock.sleep(HANDSHAKE_MS)
        try:
            self._take(self._side.timed_out())
        except HaProtocolError as error:
            self.refuse(str(error))

    def _take(self, events: list[Handshake | Report]) -> None:
        was_first = self.end < 0
        has_reported = False
        for event in events:
            if isinstance(event, Handshake):
                self._greet(event)
            else:
                self._note(event.end)
                has_reported = True
            if self._closed:
                return
        if has_reported:
            self._leading.reported(self, first=was_first)
            if was_first or self.sent < self._positions.written:
                self.wake()

    def _greet(self, said: Handshake) -> None:
        self.id, self.learner = said.follower_id, said.learner
        self._from_last_file = said.from_last_file
        objection = self._leading.objection(self)
        if objection is not None:
            self.refuse(objection)
            return
        written = self._positions.written
        self._write(self._side.hello(written, self._leading.epoch, self._epochs.entries))

    def _note(self, end: int) -> None:
        """Take a report, if it can be true."""
        written = self._positions.written
        if end > written:
            self.refuse(f"it reports {end}, and the log ends at {written}")
        elif self.end < 0:
            self._begin(end)
        elif end < self.end:
            self.refuse(f"it reports {end} after {self.end}")
        elif end > max(self.sent, self.end):
            self.refuse(f"it reports {end}, and was sent the log up to {self.sent}")
        else:
            self.end = end
            self.counts = self.counts or end > self.start or end == written
        self.counts = self.counts and not self.is_reader
        self._know(follows=self.end == written or self.end > self.start)

    def _begin(self, end: int) -> None:
        plain = self.dialect is Dialect.PLAIN
        if plain:
            objection = self._leading.objection(self)
            if objection is not None:
                self.refuse(objection)
                return
        first, written = self._store.first_offset, self._positions.written
        last_file = max(first, written - written % self._store.commit_log.segment_bytes)
        if end == 0:
            start = last_file if plain or self._from_last_file else first
        elif end < first and plain:
            self.refuse(
                f"its log ends at {end}, and this one begins at {first}: empty its directory"
            )
            return
        else:
            start = max(end, first)
        self.start = self.sent = start
        self.end = end
        # Eight bytes of a stray connection can be a report too, but not of the log's very end.
        self.counts = not plain or end == written
        self.pursuit.begin(written, self._clock.monotonic_ms())

    def _know(self, *, follows: bool) -> None:
        """Note that it follows: anybody may connect, and say that its log is empty."""
        if follows and not (self._is_known or self._closed):
            self._is_known = True
            facts = self.address, self.id, self.start, self._positions.written - self.end
            log.info("follower connected peer=%s id=%s from=%d behind=%d", *facts)

    def caught_up(self) -> bool:
        """Whether its last report says that it has all, or all that there was a while ago."""
        now_ms = self._clock.monotonic_ms()
        return self.pursuit.reported(self.end, self._positions.written, now_ms)

    def log_grew(self, before: int) -> None:
        """Note that there is more to have: until now it had all, if it had what was there."""
        if self.end >= before:
            self.pursuit.caught_up_ms = self._clock.monotonic_ms()

    # What it is sent

    def wake(self) -> None:
        """Send on at the next turn, if there is something to send and it may be sent."""
        if self._scheduled or self._closed or self._paused or self._reading or self.end < 0:
            return
        self._scheduled = True
        if self._waited_for or self._positions.written - self.sent >= CHUNK_BYTES:
            self._loop.call_soon(self._send_on)
        else:
            self._loop.call_at(self._shipped_at + PACE_S, self._send_on)

    def send_now(self) -> None:
        """The same in this turn, where little is left to send: somebody waits for its word."""
        if self.end >= 0 and self._positions.written - self.sent <= CHUNK_BYTES:
            self._send_on()

    def _send_on(self) -> None:
        self._scheduled = False
        if self._closed or self._paused or self._reading:
            return
        offset, written = self.sent, self._positions.written
        if offset >= written:
            self._tell_soon()
            return
        plain = self.dialect is Dialect.PLAIN
        most = self._config.transfer_bytes if plain else CHUNK_BYTES
        most = min(most, WINDOW_BYTES - (offset - max(self.end, self.start)))
        if not self._leading.is_in_sync(self):
            most = min(most, self.traffic.left)
        if most <= 0:
            return  # a report goes on with it, or the next tick
        if not plain:
            _, epoch_end = self._spans.at(offset)
            most = most if epoch_end is None else min(most, epoch_end - offset)
        try:
            data = self._store.raw_at(LogOffset(offset), most, cached_only=True)
        except StoreError as error:
            self._cannot_read(error)
            return
        if data is None:
            self._reading = True
            self._run(self._send_cold(offset, most))
        else:
            self._ship(data)

    async def _send_cold(self, offset: int, most: int) -> None:
        try:
            data = await self._leading.read_cold(LogOffset(offset), most)
        except StoreError as error:
            self._cannot_read(error)
            return
        self._reading = False
        if not self._closed:
            self._ship(data)

    def _ship(self, data: bytes) -> None:
        if not data:
            return
        self._write(self._head(len(data)) + data)
        self._shipped_at = self._loop.time()
        self.sent += len(data)
        self.traffic.sent(len(data))
        if self.sent < self._positions.written:
            self.wake()
        else:
            self._tell_soon()

    def _cannot_read(self, error: StoreError) -> None:
        log.error("follower closed peer=%s reason=the log cannot be read: %s", self.address, error)
        self.abort()

    def _head(self, size: int) -> bytes:
        if self.dialect is Dialect.PLAIN:
            return self._side.transfer_head(self.sent, size)
        entry, _ = self._spans.at(self.sent)
        self._told = self._positions.confirmed
        return self._side.transfer_head(self.sent, size, entry.epoch, entry.start, self._told)

    def _tell_soon(self) -> None:
        """Have a follower know what is confirmed, if nothing else is about to tell."""
        if self.dialect is Dialect.EPOCHS and self._told < self.sent and not self._telling:
            self._telling = True
            self._run(self._tell())

    async def _tell(self) -> None:
        pause_ms = CONFIRM_MS
        while self._told < self.sent and pause_ms < BEAT_MS:
            await self._clock.sleep(pause_ms)
            if self._told < self._positions.confirmed:
                # While the log goes on, each part of it tells.
                if self._clock.monotonic_ms() - self._spoke_ms >= CONFIRM_MS:
                    self._beat()
                pause_ms = CONFIRM_MS
            else:
                pause_ms *= 2
        self._telling = False

    def confirmed(self) -> None:
        """What is confirmed has moved; the follower is told of it soon."""
        if self.sent >= self._positions.written and self.end >= 0:
            self._tell_soon()

    def _beat(self) -> None:
        """Send a frame of no bytes, unless the last one is not out yet."""
        if not (self._paused or self._closed):
            self._write(self._head(0))

    async def _tend(self) -> None:
        """Say something from time to time, and notice who does not."""
        config, clock = self._config, self._clock
        while True:
            await clock.sleep(self._tick_ms)
            now_ms = clock.monotonic_ms()
            if now_ms - self.heard_ms >= config.silence_ms:
                self.refuse(f"nothing came for {now_ms - self.heard_ms} ms")
                return
            often = self.dialect is Dialect.EPOCHS
            every_ms = min(config.heartbeat_ms, BEAT_MS) if often else config.heartbeat_ms
            if self.end >= 0 and now_ms - self._spoke_ms >= every_ms:
                self._beat()
            self.traffic.tick(now_ms)
            self.wake()

    def _write(self, data: bytes) -> None:
        assert self._transport is not None
        self._spoke_ms = self._clock.monotonic_ms()
        self._transport.write(data)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ran)

    def _ran(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("follower closed peer=%s", self.address, exc_info=error)
            self.abort()
