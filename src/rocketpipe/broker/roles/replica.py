"""A broker that has replicas: it follows or leads, in one run of its store after another.

    follow     the role for readers, and a connection to the leader, whose log is taken in
    lead       an epoch of its own, what it inherits, the role for everybody, the port for followers
    step down  at once, without waiting: nothing is acknowledged from then on

The coordinator decides, through `RoleKeeper`, or the settings do: see ``deciding``. A log that has
to be cut, or begun anew, ends the run; the next one goes on with the same leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Final

from rocketpipe.broker.config.replication import ReplicationConfig
from rocketpipe.broker.core import Loop
from rocketpipe.broker.intake.visibility import LEADS_NO_LONGER
from rocketpipe.broker.replication.following.following import Following
from rocketpipe.broker.replication.leading.followers import Followers
from rocketpipe.broker.replication.leading.ha_port import HaPort
from rocketpipe.broker.replication.own_damage import OwnDamage
from rocketpipe.broker.replication.status import Lacking, ReplicationStatus
from rocketpipe.broker.roles.duties import Role, background
from rocketpipe.broker.roles.follow_loop import FollowLoop, Offline, damaged_at
from rocketpipe.broker.roles.follower_duties import follower_role, not_leading
from rocketpipe.broker.roles.run import Run
from rocketpipe.broker.roles.switchboard import Switchboard
from rocketpipe.broker.roles.tenure import LeadershipLost, Tenure
from rocketpipe.clock import Clock
from rocketpipe.coordination.coordinator import (
    Leader,
    Leadership,
    Member,
)
from rocketpipe.model.names import TABLES_TOPIC
from rocketpipe.store.errors import OddSegment, StoreDamaged
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.state.health import StoreState

log = logging.getLogger(__name__)

#: For so long after a planned switch sends are passed on: Java clients look at routes every 30 s.
PASS_ON_MS: Final = 35_000
#: How often a replica looks whether it has everything again, and room for more.
WHOLE_EVERY_MS: Final = 100
#: The id of a broker that NameServers are not told of: a master that does not lead yet.
NO_PLACE: Final = -1


class Replica:
    """One broker of a group: what its `RoleKeeper`, or its settings, have it do."""

    def __init__(
        self,
        replication: ReplicationConfig,
        *,
        me: int,
        address: str,
        ha: HaPort,
        ha_address: str,
        board: Switchboard,
        clock: Clock,
        runs: Callable[[int | None], AbstractAsyncContextManager[Run]],
        offline: Offline,
    ) -> None:
        """``me`` is its id among the replicas.

        ``runs`` opens the store, with files of the given length where it has none.
        """
        self.settings = self._replication = replication
        self.me = me
        self.address = address
        ha.serve(lambda: self._tenure.open_to if self._tenure is not None else None)
        self.ha_address = ha_address
        #: What peers are answered by, whichever role is there.
        self.board = board
        self._clock = clock
        self._runs = runs
        self._segment_bytes: int | None = None
        #: Whether NameServers may know it: its group does.
        self._placed = False
        #: One change of role, or of run, at a time.
        self._turn = asyncio.Lock()
        self._life: AsyncExitStack | None = None
        self._run: Run | None = None
        self.leader: Leader | None = None
        self._leading: Leadership | None = None
        #: Whose role is there, or is being built, until it is taken down.
        self._tenure: Tenure | None = None
        self._damage = OwnDamage(clock, self._is_mendable, self._damage_changed)
        self._following = FollowLoop(
            replication, lambda: self.run, self._reopen, offline, clock, self._damage, me=me
        )
        self._pass_sends_until_ms = 0
        #: How it stands in its group, for those who ask.
        self.status: Callable[[], ReplicationStatus] | None = None
        #: Has another lead, where a coordinator decides.
        self.resign: Callable[[int | None], Awaitable[None]] | None = None
        #: Says what is missing here, or leads all the same, where a coordinator decides.
        self.lead_anyway: Callable[[bool], Awaitable[Lacking]] | None = None
        #: Has any other lead that may, without waiting for one that has all.
        self.stand_aside: Callable[[], Awaitable[None]] | None = None
        #: Whether a replica is of its group, where a coordinator knows that.
        self.knows: Callable[[int], bool] | None = None
        #: The ids of those that may lead, where a coordinator knows them.
        self.candidates: Callable[[], Collection[int]] | None = None
        #: Those of them that have room for more.
        self.with_room: Callable[[], Collection[int]] = tuple
        #: Has the others hear that something is missing here, or nothing any more, or no room.
        self.member_changed: Callable[[], None] = lambda: None
        #: Has the in-sync set changed, where a coordinator keeps it.
        self.change_in_sync: Callable[[frozenset[int]], Awaitable[None]] | None = None

    @property
    def run(self) -> Run:
        """The run of this moment; while its log is being changed, the last one."""
        assert self._run is not None, "a replica is opened first"
        return self._run

    @property
    def leads(self) -> bool:
        """Whether it leads now."""
        return self._leading is not None

    @property
    def followers(self) -> Followers | None:
        """Who follows it, until its time as leader has ended."""
        return self._tenure.followers if self._tenure is not None else None

    @property
    def is_connected(self) -> bool:
        """Whether it takes in the log of a leader now."""
        return self.following is not None and self.following.status().connected

    # Runs

    async def open(self) -> None:
        """Begin the first run, with nobody to follow yet.

        Raises:
            StoreError: The directory cannot be used.
        """
        async with self._turn:
            await self._begin()

    async def close(self) -> None:
        """End the run: the store is closed in good order."""
        self.step_down("it is stopping")
        await self._following.end()
        async with self._turn:
            if self._life is None:
                return
            try:
                await self._end_tenure()
                await self.run.core.registrar.unregister()
            finally:
                await self._end()

    async def _begin(self) -> None:
        async with AsyncExitStack() as stack:
            self._run = await stack.enter_async_context(self._runs(self._segment_bytes))
            core = self._run.core
            self._damage.watch(core.store.damaged)
            core.standing.refusal = not_leading(self.leader)
            # Whoever is not told otherwise would register it as the master; and before it has
            # joined its group, another may be there under its id.
            placed = self._placed or not self.settings.elected
            core.registrar.stand((placed and self.me) or NO_PLACE, self.ha_address, 0)
            core.group.resign = self.resign
            core.group.lead_anyway = self.lead_anyway
            core.group.forget = self._forget
            if self.status is not None:
                core.group.status = self.status
            await self._enter_follower()
            self._life = stack.pop_all()

    async def _end(self) -> None:
        life, self._life = self._life, None
        if life is not None:
            await life.aclose()

    async def _reopen(self, change: Callable[[], object], segment_bytes: int | None = None) -> None:
        """End the run, change the log, and begin another one, with files of a length if given.

        Where the log could not be changed, another run begins with it as it is.
        """
        async with self._turn:
            self._segment_bytes = segment_bytes or self._segment_bytes
            try:
                await self.run.leave("its log is being changed")
                await self.board.drained()
                await self._end()
                await asyncio.to_thread(change)
            finally:
                await self._end()
                await self._begin()

    async def mend(self, ha_address: str, damage: StoreDamaged | OddSegment) -> None:
        """Have a leader mend a log that cannot be opened as it is.

        Raises:
            StoreError: It cannot.
        """
        async with self._turn:
            await asyncio.to_thread(self._following.mend, ha_address, damaged_at(damage))

    def _is_mendable(self) -> bool:
        """Whether another replica may bring back what is damaged here."""
        if self.leads:
            return self.resign is not None and bool(self._others())
        return self.leader is not None

    def _others(self) -> set[int]:
        """Who may lead in this one's place, where a coordinator decides."""
        return set(self.candidates()) - {self.me} if self.candidates is not None else set()

    def _damage_changed(self) -> None:
        self.member_changed()
        self._following.interrupt()

    # Following

    async def follow(self, leader: Leader | None) -> None:
        """Follow a leader, or wait for one; whatever it did before has ended then."""
        self.step_down("it follows another leader")
        await self._following.end()
        async with self._turn:
            self.leader = leader
            self._placed = True
            if self._life is None:
                await self._begin()
            elif self._tenure is not None or not self.run.serves:
                await self._end_tenure()
                await self._enter_follower()
            core = self.run.core
            core.standing.refusal = not_leading(leader)
            core.registrar.stand(self.me, self.ha_address, 0)
            core.waiting.wake_all()
            if leader is not None:
                self._following.begin(leader)
        await core.registrar.register(settle=False)

    def stop_following(self) -> None:
        """End the connection to the leader at once: nothing of it is taken in or reported."""
        self._following.close()

    @property
    def following(self) -> Following | None:
        """The connection to the leader, while it follows one."""
        return self._following.following

    @property
    def refused(self) -> str | None:
        """Why its leader cannot be followed."""
        return self._following.refused

    async def _enter_follower(self) -> None:
        core = self.run.core
        block = follower_role(core, lambda: self.leader, self._passes_sends, me=self.me)
        await self.run.enter(block, self._followers_loops)

    def _followers_loops(self, serving: Role) -> Mapping[str, Loop]:
        core, table_log = self.run.core, self.run.table_log
        core.arrivals.listen(lambda *_: table_log.arrived(), topic=TABLES_TOPIC)
        return {
            **background(core, serving, leads=False),
            "tables of the leader": table_log.keep_applied,
            "what it can do": self._keep_looking,
        }

    async def _keep_looking(self) -> None:
        store, was = self.run.core.store, StoreState.RUNNING
        while True:
            await self._clock.sleep(WHOLE_EVERY_MS)
            self._look_whole()
            if store.state is not was:
                was = store.state
                self.member_changed()

    def _passes_sends(self) -> bool:
        return self._clock.monotonic_ms() < self._pass_sends_until_ms

    # Leading

    async def lead(self, lead: Leadership) -> None:
        """Lead in an epoch: sends are taken when this returns.

        Raises:
            LeadershipLost: `step_down` was called meanwhile.
            StoreError: The store does not let it.
        """
        self._leading = lead
        try:
            await self._following.end()
            async with self._turn:
                if self._leading is not lead:
                    raise LeadershipLost("it was replaced before it had begun to lead")
                self.leader = lead.leader
                if self._life is None:
                    await self._begin()
                try:
                    await self._promote(lead)
                except BaseException:
                    await self._retreat()
                    raise
        finally:
            if self._leading is lead and self.run.core.standing.refusal is not None:
                self.step_down("it could not begin to lead")

    async def _promote(self, lead: Leadership) -> None:
        self.board.hold()
        await self._end_tenure()  # it led before, and nobody did in between
        self._tenure = Tenure(
            lead,
            self.run,
            self.board,
            self._replication,
            self._clock,
            holds=lambda: self._leading is lead,
            change_in_sync=self.change_in_sync,
            knows=self.knows,
            stand_aside=self.stand_aside,
            resign=self.resign,
            others=self._others,
            with_room=self.with_room,
            damage=self._damage,
        )
        await self._tenure.begin()

    async def _retreat(self) -> None:
        """Be a follower, after a promotion that failed."""
        self.step_down("it could not begin to lead")
        try:
            await self._end_tenure()
            await self._enter_follower()
        finally:
            self.board.go_on()  # if there is no role now, `follow` builds one

    def step_down(self, reason: str) -> None:
        """Lead no longer, from this moment on: whoever waits is told, nothing more is taken."""
        if self._leading is None:
            return
        self._leading = self.leader = None
        log.warning("leads no longer reason=%s", reason)
        if self._run is not None:
            self._run.core.standing.refusal = not_leading(None)
        if self._tenure is not None:
            self._tenure.step_down(*LEADS_NO_LONGER)

    async def _end_tenure(self) -> None:
        if self._tenure is not None:
            await self._tenure.end()
            self._tenure = None

    async def hand_over(self, wanted: int | None = None) -> int | None:
        """Take no more sends, and wait for a follower that has all; its id, None if none has."""
        if self._tenure is None:
            return None
        found = await self._tenure.caught_up(wanted)
        if found is not None:
            self._pass_sends_until_ms = self._clock.monotonic_ms() + PASS_ON_MS
        return found

    def _forget(self, replica_id: int) -> None:
        assert self.followers is not None, "only a leader is asked to"
        self.followers.forget(replica_id)

    # What others see of it

    def _look_whole(self) -> None:
        """Be clean again once everything is here that the leader has confirmed."""
        if not self.run.is_clean and self.following is not None:
            now = self.following.status()
            written = self.run.core.store.positions.written
            if now.connected and written >= max(now.confirmed, now.leader_end):
                with suppress(DiskError):  # it looks again
                    self.run.became_clean()
                    self.member_changed()

    def member(self) -> Member:
        """This replica, as the others of its group see it now."""
        run, store = self.run, self.run.core.store
        return Member(
            id=self.me,
            address=self.address,
            ha_address=self.ha_address,
            log_end=store.positions.written,
            last_epoch=max(run.epochs.last_epoch, run.joined.epoch),
            # One whose store has failed could not lead; one that is damaged has a hole in its log.
            clean=run.is_clean and store.health.failure is None and not self._damage,
            full=store.state is StoreState.FULL,
        )
