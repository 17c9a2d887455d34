"""Those who follow, as their leader sees them: what they have, and who waits for that.

    report → checked by the connection → what all who count have → acknowledged
                                                                     ├→ answers that waited
                                                                     └→ readers may see it

One for each leadership: what was said to another, or after its end, does not count.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import replace
from typing import Final, NoReturn

from rocketpipe.broker.config.replication import ReplicationConfig
from rocketpipe.broker.replication.epochs import EpochTable
from rocketpipe.broker.replication.leading.ha_port import HaConnection
from rocketpipe.broker.replication.leading.in_sync import ChangeInSync, ElectedSet, FixedSet, InSync
from rocketpipe.broker.replication.leading.outgoing import Outgoing
from rocketpipe.broker.replication.leading.retained import Hold, Retained
from rocketpipe.broker.replication.leading.waiting_sends import Done, WaitingSends
from rocketpipe.broker.replication.standing import STORED, Refusal
from rocketpipe.broker.replication.status import FollowerStatus
from rocketpipe.clock import Clock
from rocketpipe.errors import RequestRejected, RocketPipeError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.refusals import IN_SYNC_NOT_ENOUGH
from rocketpipe.remoting.log_budget import LogBudget
from rocketpipe.store.message_store import MessageStore

log = logging.getLogger(__name__)

#: A connection that nothing came over for so long gives way to a newer one of the same replica.
SILENT_MS: Final = 1_500
#: Lines about peers that are not repeated.
_MAX_SAID: Final = 1000


class StillThere(RocketPipeError):
    """A replica that is to be forgotten is in use."""


class Followers:
    """All followers of one leadership; ``standing.followers`` where sends wait for them."""

    def __init__(
        self,
        store: MessageStore,
        epochs: EpochTable,
        clock: Clock,
        config: ReplicationConfig,
        *,
        me: int,
        epoch: int,
        in_sync: frozenset[int] | None,
        change_in_sync: ChangeInSync | None,
        moved: Callable[[], None],
        hold: Hold,
        knows: Callable[[int], bool] | None = None,
    ) -> None:
        """Begin to lead: the store's acknowledged position is moved by this from now on.

        ``in_sync`` and ``change_in_sync`` are the coordinator's, None with fixed roles. ``moved``
        is called when something was acknowledged, ``hold`` keeps a part of the log, ``knows``
        says whether the coordinator sees a replica: others are not let in.
        """
        self.epoch = epoch
        self._store = store
        self._positions = store.positions
        self._epochs = epochs
        self._clock = clock
        self._config = config
        self._me = me
        self._moved = moved
        self._knows = knows
        self._waits = config.waits
        self._open: dict[Outgoing, None] = {}
        self._by_id: dict[int, Outgoing] = {}
        self._failed: Refusal | None = None
        self._sends = WaitingSends(clock)
        self._retained = Retained(clock, hold, config.retain_ms)
        self._cold: set[asyncio.Future[bytes]] = set()
        self._lines = LogBudget()
        self._said: set[tuple[str, str]] = set()
        #: Why connections were closed, and how often.
        self.refusals: Counter[str] = Counter()
        self._in_sync: InSync
        self.late: Refusal | None = None
        self._elected: ElectedSet | None = None
        if in_sync is None or change_in_sync is None:
            self._in_sync = FixedSet(self._positions, clock, self._open, config, self._recount)
        else:
            self._in_sync = self._elected = ElectedSet(
                self._positions,
                clock,
                self._by_id,
                config,
                self._recount,
                me=me,
                members=in_sync | {me},
                change=change_in_sync,
                knows=knows,
            )
            self.late = (
                ResponseCode.SYSTEM_ERROR,
                "not acknowledged by the in-sync replicas in time: whether it stays is not known",
            )
        acknowledged = self._positions.acknowledged
        if not self._waits:
            self._positions.begin_acknowledged(None)
        elif acknowledged is None:
            self._positions.begin_acknowledged(self._positions.dispatched)
        store.on_append = self._appended
        self._recount()

    def reconfigure(self, config: ReplicationConfig) -> None:
        """Go by another ``minInSyncReplicas`` from now on, which may change while it runs."""
        self._config = replace(self._config, min_in_sync=config.min_in_sync)
        self._recount()

    # For those who send

    @property
    def waiting(self) -> int:
        """How many answers wait for followers now."""
        return len(self._sends)

    def refusal(self) -> Refusal | None:
        """Why nothing can be acknowledged now, before anything is appended."""
        if self._failed is not None:
            return self._failed
        copies, least = self._in_sync.copies(), self._config.min_in_sync
        if copies < least:
            return (
                ResponseCode.SYSTEM_ERROR,
                f"{IN_SYNC_NOT_ENOUGH}: {copies} of minInSyncReplicas {least}, this one "
                "included; `rocketpipe cluster status` shows who is there",
            )
        return None

    async def acknowledged(self, end: LogOffset) -> int:
        """Wait until everything before ``end`` is acknowledged; gives a code of what is stored.

        Raises:
            RequestRejected: This broker leads no longer.
        """
        answer: asyncio.Future[Refusal] = asyncio.get_running_loop().create_future()

        def done(code: int, remark: str) -> None:
            if not answer.done():
                answer.set_result((code, remark))

        self._call_when_acknowledged(end, done)
        code, remark = await answer
        if code not in STORED:
            raise RequestRejected(code, remark)
        return code

    def when_acknowledged(self, end: LogOffset, done: Done) -> None:
        """Call ``done``, at once or later, with the code and the remark of the answer.

        This is for what a whole turn has appended: followers are sent it at once.
        """
        for follower in list(self._open):
            follower.send_now()
        self._call_when_acknowledged(end, done)

    def _call_when_acknowledged(self, end: LogOffset, done: Done) -> None:
        if self._failed is None:
            self._recount()
        if self._failed is not None:
            done(*self._failed)
        elif (acknowledged := self._positions.acknowledged) is None or acknowledged >= end:
            done(self._code(), "")
        else:
            self._sends.add(end, self._config.slave_timeout_ms, done)

    def _code(self) -> int:
        """What one that waited is told when all who count have it: there may be too few of them.

        With fixed roles it is said if no slave has it. An elected set may have shrunk since it was
        appended: what is in too few logs shows, as nobody without it can lead, but to its sender it
        is as one that took too long.
        """
        copies = self._in_sync.copies()
        if self._elected is None:
            return ResponseCode.SUCCESS if copies > 1 else ResponseCode.SLAVE_NOT_AVAILABLE
        if copies < self._config.min_in_sync:
            return ResponseCode.FLUSH_SLAVE_TIMEOUT
        return ResponseCode.SUCCESS

    def fail(self, code: int, remark: str) -> None:
        """Stop to lead: who waits is told, every connection is ended, nothing counts any more."""
        if self._failed is not None:
            return
        self._failed = (code, remark)
        if self._elected is not None:
            self._elected.end()
        if self._store.on_append == self._appended:
            self._store.on_append = None
        self._sends.fail(self._failed)
        for follower in list(self._open):
            follower.abort()
        self._retained.release()

    async def finish(self) -> None:
        """Wait until nothing of the log is read any more: then the store may be closed."""
        while self._cold:
            await asyncio.wait(self._cold)

    # For connections

    def welcome(self, lost: Callable[[HaConnection], None]) -> HaConnection | None:
        """A connection for one more; None after the end of this leadership."""
        if self._failed is not None:
            return None
        follower = Outgoing(self, self._store, self._epochs, self._clock, self._config, lost)
        self._open[follower] = None
        return follower

    def objection(self, follower: Outgoing) -> str | None:
        """Why a follower that has said who it is may not take part; None takes it in."""
        if self._failed is not None:
            return "this broker does not lead"
        each = follower.id
        if each is None:
            if self._elected is not None and not self._config.allow_plain:
                return "plain replication, and a leader is elected here: haAllowPlain is false"
            return None
        if follower.is_reader:
            return None
        if each == self._me:
            return f"it says that it is replica {each}, which is this one"
        if self._knows is not None and not self._knows(each):
            return f"replica {each} is not of this group"
        older = self._by_id.get(each)
        if older is not None and older is not follower:
            if self._clock.monotonic_ms() - older.heard_ms < SILENT_MS:
                return f"replica {each} is connected already, from {older.address}"
            older.refuse(f"it is silent, and replica {each} has come again")
        self._by_id[each] = follower
        return None

    def reported(self, follower: Outgoing, *, first: bool) -> None:
        """A follower's word on what it has, which was checked."""
        if self._failed is not None or follower.is_reader:
            return
        self._retained.needs(follower, max(follower.end, follower.start))
        self._in_sync.reported(follower, first=first)
        self._recount()

    @property
    def has_in_sync(self) -> bool:
        """Whether anybody is in sync beside the leader."""
        return self._in_sync.copies() > 1

    def is_in_sync(self, follower: Outgoing) -> bool:
        """Whether senders wait for it: then it is not held back."""
        return self._in_sync.has(follower)

    def refused(self, follower: Outgoing, reason: str) -> None:
        """A connection is closed for what came over it."""
        self.refusals[follower.dialect.value if follower.dialect else "stranger"] += 1
        # A slave that cannot follow comes again every few seconds, for ever.
        line = (follower.address.rpartition(":")[0], reason)
        if line in self._said:
            return
        if len(self._said) >= _MAX_SAID:
            self._said.clear()
        self._said.add(line)
        if self._lines.allows():
            log.warning(
                "follower closed peer=%s id=%s reason=%s%s",
                follower.address,
                follower.id,
                reason,
                self._lines.suppressed(),
            )

    def lost(self, follower: Outgoing) -> None:
        """A connection has ended; nothing that it said counts any more."""
        self._open.pop(follower, None)
        each = follower.id
        known = each is None or self._by_id.get(each) is follower
        if each is not None and known:
            del self._by_id[each]
        if known and self._failed is None:
            self._in_sync.lost(follower)
        self._retained.left(follower)
        self._recount()

    def forget(self, replica_id: int) -> None:
        """Keep nothing for a replica any more, and wait for it no longer.

        Raises:
            StillThere: It is connected, or the coordinator sees it.
        """
        seen = self._knows is not None and self._knows(replica_id)
        if seen or replica_id in self._by_id or replica_id == self._me:
            raise StillThere(
                f"replica {replica_id} is there, or was a moment ago: stop it first, and once its "
                "session with the coordinator is over it can be forgotten"
            )
        self._retained.forget(replica_id)

    async def read_cold(self, offset: LogOffset, most: int) -> bytes:
        """Read from the log on a thread; `finish` waits for it, whoever asked."""
        read = asyncio.ensure_future(asyncio.to_thread(self._read, offset, most))
        self._cold.add(read)
        read.add_done_callback(self._cold_done)
        return await asyncio.shield(read)

    def _read(self, offset: LogOffset, most: int) -> bytes:
        return self._store.raw_at(offset, most) or b""

    def _cold_done(self, read: asyncio.Future[bytes]) -> None:
        self._cold.discard(read)
        if not read.cancelled():
            read.exception()  # whoever asked may be gone

    # What is acknowledged

    def _appended(self) -> None:
        self._in_sync.appended()
        for follower in self._open:
            follower.wake()

    def _recount(self) -> None:
        """Move on what is acknowledged, as far as all who count have the log."""
        if self._failed is not None or not self._waits:
            return
        if self._elected is None and self._in_sync.copies() < self._config.min_in_sync:
            return
        end, acknowledged = self._in_sync.common_end(), self._positions.acknowledged
        if end is None or acknowledged is None or end <= acknowledged:
            return
        self._positions.acknowledged = LogOffset(end)
        self._sends.release(LogOffset(end), self._code())
        self._moved()
        for follower in self._open:
            follower.confirmed()

    async def keep_current(self) -> NoReturn:
        """Have the in-sync set follow what the followers do, until cancelled.

        Raises:
            Fenced: Somebody else has changed the set: this broker leads no longer.
        """
        tending = asyncio.ensure_future(self._retained.keep())
        try:
            await self._in_sync.keep_current()
        finally:
            tending.cancel()

    # For those who ask

    def caught_up(self, wanted: Container[int]) -> int | None:
        """A follower in sync that has all of the log, of those that are wanted; else None."""
        written = self._positions.written
        for each, follower in self._by_id.items():
            if each in wanted and follower.end >= written and self._in_sync.has(follower):
                return each
        return None

    def status(self) -> list[FollowerStatus]:
        """All that take part."""
        written = self._positions.written
        return [
            FollowerStatus(
                id=each.id,
                address=each.address,
                dialect=each.dialect.value,
                end=each.end,
                lag=written - each.end,
                in_sync=self._in_sync.has(each),
                bytes_per_second=each.traffic.bytes_per_second,
                transfer_from=each.sent,
            )
            for each in self._open
            if each.dialect is not None and each.end >= 0 and not each.is_reader
        ]
