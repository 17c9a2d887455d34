"""Follows a leader for as long as it leads, whatever that takes: a cut, a log begun anew.

What the connection itself mends is in ``replication.following``. Here is what needs the store to be
closed and opened again, and what no try mends: that is said, and tried again all the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

from rocketpipe.background import running
from rocketpipe.broker.config.replication import ReplicationConfig
from rocketpipe.broker.replication.following.agreement import BeginAt, CutNeeded, NothingInCommon
from rocketpipe.broker.replication.following.following import Following
from rocketpipe.broker.replication.following.terms import OtherFiles, Terms, check_terms, terms_of
from rocketpipe.broker.replication.frames import Dialect
from rocketpipe.broker.replication.own_damage import OwnDamage
from rocketpipe.broker.replication.tables.table_poll import TablePoll
from rocketpipe.broker.roles.run import Run
from rocketpipe.clock import Clock
from rocketpipe.coordination.coordinator import Leader
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.protocol.refusals import ACKNOWLEDGED_WOULD_GO
from rocketpipe.store.errors import OddSegment, StoreDamaged
from rocketpipe.store.layout import offset_of
from rocketpipe.store.state.health import StoreState
from rocketpipe.store.upkeep.mending import MendReport, NotMended

log = logging.getLogger(__name__)

#: How long to leave a leader alone that could not be followed, and one that never can be.
AGAIN_MS: Final = 1000
REFUSED_AGAIN_MS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Offline:
    """What is done to the log while no run has it; each may take long, and runs beside the loop."""

    #: Have it end at an offset, and keep what was behind it aside.
    cut: Callable[[LogOffset], object]
    #: Do without all of it.
    drop: Callable[[], object]
    #: Have the leader at an address mend the file around an offset.
    mend: Callable[[str, int], MendReport]


#: Ends the run, changes the log, and begins another, with files of a length if one is given.
Reopen = Callable[[Callable[[], object], int | None], Awaitable[None]]


class FollowLoop:
    """One leader at a time, followed from `begin` to `end`."""

    def __init__(
        self,
        config: ReplicationConfig,
        run: Callable[[], Run],
        reopen: Reopen,
        offline: Offline,
        clock: Clock,
        damage: OwnDamage,
        *,
        me: int,
    ) -> None:
        """``run`` gives the run of the moment; ``me`` is this replica's id."""
        self._damage = damage
        self._config = config
        self._run = run
        self._reopen = reopen
        self._offline = offline
        self._clock = clock
        self._me = me
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        #: The connection, while there is one.
        self.following: Following | None = None
        self._refused: str | None = None
        #: Whether what was confirmed may have been acknowledged, as the leader waits for followers.
        self._waits = config.waits

    @property
    def refused(self) -> str | None:
        """Why the leader cannot be followed; None while it is."""
        if self.following is not None and self.following.status().connected:
            self._refused = None
        return self._refused

    def begin(self, leader: Leader) -> None:
        """Follow a leader; none is followed by now."""
        assert self._task is None
        self._is_closed = False
        self._refused = None
        self._task = asyncio.create_task(self._keep_following(leader), name="following")
        self._task.add_done_callback(_report)

    def close(self) -> None:
        """End the connection at once, for good: nothing is taken in or reported after this returns.

        Who stands for election says where its log ends: it must not go on growing meanwhile.
        """
        self._is_closed = True
        if self.following is not None:
            self.following.close()

    def interrupt(self) -> None:
        """End the connection, and see to what was found damaged before there is another one."""
        if self.following is not None:
            self.following.close()

    async def end(self) -> None:
        """Follow nobody; what was begun on the store is finished then."""
        self.close()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self._refused = None

    async def _keep_following(self, leader: Leader) -> None:
        while not self._is_closed:
            pause_ms = AGAIN_MS
            try:
                if self._run().core.store.state is StoreState.CLOSED:
                    await self._reopened(_nothing)  # the last time it could not be opened
                if self._damage.is_due:
                    await self._mend(leader)
                pause_ms = await self._followed(leader)
            except (StoreDamaged, OddSegment) as error:
                self._refuse(str(error))
                self._damage.found(damaged_at(error))
            except NothingInCommon as error:
                self._refuse(str(error))
                pause_ms = REFUSED_AGAIN_MS
            except (RocketPipeError, OSError) as error:
                self._refuse(str(error))
            if pause_ms:
                await self._clock.sleep(pause_ms)

    async def _followed(self, leader: Leader) -> int:
        """Follow until that ends, and do what it takes; gives how long to leave the leader alone.

        Raises:
            RocketPipeError: It cannot be followed now.
            OSError: The same.
        """
        try:
            await self._follow_once(leader)
        except CutNeeded as cut:
            return await self._cut(cut)
        except BeginAt as begin:
            log.warning(
                "log is begun anew, as its leader has nothing older begin=%d end=%d",
                begin.offset,
                self._run().core.store.positions.written,
            )
            await self._reopened(self._offline.drop)
        except OtherFiles as other:
            await self._reopened(self._offline.drop, other.segment_bytes)
        return 0

    async def _reopened(
        self, change: Callable[[], object], segment_bytes: int | None = None
    ) -> None:
        # Who ends this meanwhile waits for its turn: the log is not left half changed.
        await asyncio.shield(self._reopen(change, segment_bytes))

    async def _follow_once(self, leader: Leader) -> None:
        run = self._run()
        core = run.core
        terms = await self._terms_of(run, leader)
        self._waits = self._config.waits or terms.waits
        own_bytes = core.store.commit_log.segment_bytes
        check_terms(terms, own_bytes, empty=not core.store.positions.written)
        following = Following(
            core.store,
            run.epochs,
            run.joined,
            self._clock,
            self._config,
            me=self._me,
            leader_ha=leader.ha_address,
            dialect=terms.dialect,
            moved=self._taken_in,
            elected=self._config.elected,
            ours=terms.ours,
        )
        if self._is_closed:  # it may have been while the leader was asked
            return
        self.following = following
        try:
            async with AsyncExitStack() as stack:
                if leader.address and not terms.ours:
                    # What a master of Apache's knows beside its log has to be asked for.
                    poll = TablePoll(
                        core.tables,
                        core.caller,
                        self._clock,
                        cut=run.table_log.cut_topic,
                        keep_from=run.kept_log.keep_from,
                    )
                    polling = poll.keep_polling(leader.address)
                    await stack.enter_async_context(running(polling, "tables of the master"))
                await following.run()
        finally:
            self.following = None

    async def _terms_of(self, run: Run, leader: Leader) -> Terms:
        """On which terms the leader is followed.

        A log that has been in the group has the group's files. A new leader is not asked then: it
        answers nobody before its in-sync followers have what it inherited.
        """
        core = run.core
        if self._config.elected and run.joined.epoch and core.store.positions.written:
            return Terms(Dialect.EPOCHS, None, ours=True)
        return await terms_of(core.caller, leader, elected=self._config.elected)

    async def _cut(self, cut: CutNeeded) -> int:
        """Do without what the leader does not have; gives how long to leave it alone then."""
        store = self._run().core.store
        if cut.below_confirmed and self._waits:
            self._refuse(
                f"its log ends in common with the leader's at {cut.to}, before what was confirmed "
                f"at {store.positions.confirmed}: {ACKNOWLEDGED_WOULD_GO}; does the leader run "
                "on an old copy of its directory? 'rocketpipe doctor' says what to do; if its log "
                "is the one to keep, cut this one with 'rocketpipe store truncate'"
            )
            return REFUSED_AGAIN_MS
        log.warning(
            "log is cut, as the leader's goes on otherwise at=%d end=%d",
            cut.to,
            store.positions.written,
        )
        await self._reopened(partial(self._offline.cut, cut.to))
        return 0

    async def _mend(self, leader: Leader) -> None:
        """Have the leader mend what is damaged here; what it cannot mend is followed with."""
        at = self._damage.first
        try:
            await self._reopened(partial(self.mend, leader.ha_address, at))
            size = self._run().core.store.commit_log.segment_bytes
            self._damage.mended(at - at % size, at - at % size + size)
        except NotMended as error:
            self._damage.not_mended(error)

    def mend(self, ha_address: str, at: int) -> None:
        """Mend the file around an offset, while no run has it, and say what was done.

        Raises:
            NotMended: The leader's log is another, or damaged as well.
            LeaderUnread: It does not answer.
            StoreError: A file cannot be read or written.
        """
        report = self._offline.mend(ha_address, at)
        for each in report.ranges:
            log.warning("damage is mended from leader=%s %s", ha_address, each)
        if not report.ranges:
            log.warning("damage is not found again at=%d: it was not on the disk", at)

    def _taken_in(self) -> None:
        """More is confirmed, and shows."""
        self._run().core.visibility.dispatch()

    def _refuse(self, reason: str) -> None:
        if reason != self._refused:
            log.error("the leader cannot be followed, and is tried again reason=%s", reason)
        self._refused = reason


def damaged_at(error: StoreDamaged | OddSegment) -> int:
    """Where in the log the damage is that keeps a store from being opened."""
    if isinstance(error, StoreDamaged):
        return error.at
    return offset_of(error.path.name) or 0


def _nothing() -> None:
    """The log stays as it is."""


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("following ended, which it never should", exc_info=error)
