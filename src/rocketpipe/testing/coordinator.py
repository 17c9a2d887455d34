"""A coordinator in memory, whose network and sessions are as bad as a test wants them.

    SimEnsemble         the nodes, their versions, and the sessions that they hear of
      SimCoordinator    one replica's way to it: late, cut, paused; answers that get lost

It has the semantics of ZooKeeper that the elections rest on: a change is made only if the versions
are those that were seen; what a session made goes when the ensemble has not heard of it for its
time; a watch may come late or never; an answer may be lost although the change was made. Time is
the clock's, chance is the seed's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NoReturn, TypeVar

from rocketpipe.clock import Clock
from rocketpipe.coordination.coordinator import (
    CoordinatorAway,
    Fenced,
    GroupState,
    IdTaken,
    Leader,
    Leadership,
    Member,
)

T = TypeVar("T")

#: How often sessions are looked at.
TICK_MS: Final = 20


@dataclass(frozen=True, slots=True)
class _Owned:
    """What goes with the session that made it."""

    value: Any
    session: int


class SimEnsemble:
    """What all replicas of one group see, if they see anything."""

    def __init__(
        self,
        clock: Clock,
        chance: Random,
        *,
        session_ms: int = 1_000,
        late_ms: int = 0,
        watches_lost: float = 0.0,
    ) -> None:
        """``late_ms``: no message takes longer; ``watches_lost``: this part never comes."""
        self.session_ms = session_ms
        #: Everybody who was ever elected, in order.
        self.elected: list[Leader] = []
        self.up = True
        self.clock = clock
        self.chance = chance
        self.late_ms = late_ms
        self.watches_lost = watches_lost
        self._coordinators: list[SimCoordinator] = []
        self._heard_ms: dict[int, int] = {}
        self._sessions = 0
        self._epoch = 0
        self._successor: int | None = None
        self._epoch_version = 0
        self._in_sync: frozenset[int] = frozenset()
        self._in_sync_version = 0
        self._leader: _Owned | None = None
        self._members: dict[int, _Owned] = {}

    def coordinator(self) -> SimCoordinator:
        """One more replica's way to the group."""
        made = SimCoordinator(self)
        self._coordinators.append(made)
        return made

    async def run(self) -> NoReturn:
        """Have sessions live and die."""
        while True:
            await self.clock.sleep(TICK_MS)
            self.tick()

    def tick(self) -> None:
        """Hear of who is there, and end the sessions that were not heard of for too long."""
        now_ms = self.clock.monotonic_ms()
        for each in self._coordinators:
            each.beat(now_ms)
        if not self.up:
            return
        late = [id_ for id_, ms in self._heard_ms.items() if now_ms - ms > self.session_ms]
        for session in late:
            self.end_session(session)

    def stop(self) -> None:
        """Nobody is answered any more."""
        self.up = False

    def start(self) -> None:
        """Sessions that were there get their whole time again, as after an ensemble's restart."""
        self.up = True
        for session in self._heard_ms:
            self._heard_ms[session] = self.clock.monotonic_ms()

    # --- what coordinators do here ----------------------------------------------------------------

    def new_session(self) -> int:
        self._sessions += 1
        self._heard_ms[self._sessions] = self.clock.monotonic_ms()
        return self._sessions

    def hear(self, session: int) -> bool:
        """Whether the session is alive; if so, it lives on."""
        if session not in self._heard_ms:
            return False
        self._heard_ms[session] = self.clock.monotonic_ms()
        return True

    def end_session(self, session: int) -> None:
        self._heard_ms.pop(session, None)
        if self._leader is not None and self._leader.session == session:
            self._leader = None
        self._members = {id_: m for id_, m in self._members.items() if m.session != session}
        self._tell()

    def forget(self) -> None:
        """Lose every node, as when its data is removed; sessions go on, and are told."""
        self._epoch = self._epoch_version = self._in_sync_version = 0
        self._in_sync, self._leader, self._successor = frozenset(), None, None
        self._members = {}
        self._tell()

    def state(self) -> GroupState:
        return GroupState(
            epoch=self._epoch,
            leader=None if self._leader is None else self._leader.value,
            in_sync=self._in_sync,
            members={id_: owned.value for id_, owned in self._members.items()},
            successor=self._successor,
            epoch_version=self._epoch_version,
            in_sync_version=self._in_sync_version,
        )

    def join(self, me: Member, session: int) -> GroupState:
        there = self._members.get(me.id)
        if there is not None and there.session != session and there.value.address != me.address:
            raise IdTaken(me.id, there.value.address)
        self._members[me.id] = _Owned(me, session)
        self._tell()
        return self.state()

    def campaign(
        self,
        me: int,
        session: int,
        seen: GroupState,
        in_sync: frozenset[int],
        *,
        anyway: bool = False,
    ) -> Leadership:
        seen.check_candidate(me, in_sync, anyway=anyway)
        mine = self._members[me].value
        leader = Leader(
            id=me, epoch=seen.next_epoch, address=mine.address, ha_address=mine.ha_address
        )
        there = self._leader
        if there is not None and there.session != session and not leader.is_again(there.value):
            raise Fenced(f"replica {there.value.id} leads")
        self._check(seen.epoch_version, seen.in_sync_version)
        self._epoch = leader.epoch
        self._successor = None
        self._epoch_version += 1
        self._in_sync = in_sync
        self._in_sync_version += 1
        self._leader = _Owned(leader, session)
        self.elected.append(leader)
        self._tell()
        return Leadership(leader=leader, state=self.state())

    def change_in_sync(
        self, lead: Leadership, seen: GroupState, in_sync: frozenset[int]
    ) -> GroupState:
        self._check(lead.state.epoch_version, seen.in_sync_version)
        self._in_sync = in_sync
        self._in_sync_version += 1
        self._tell()
        return self.state()

    def resign(self, lead: Leadership, to: int | None) -> None:
        if self._leader is None or self._leader.value != lead.leader:
            raise Fenced(f"epoch {lead.leader.epoch} is over")
        self._leader = None
        self._successor = to
        self._epoch_version += 1
        self._tell()

    def _check(self, epoch_version: int, in_sync_version: int) -> None:
        if epoch_version != self._epoch_version:
            raise Fenced(f"epoch {self._epoch} has begun")
        if in_sync_version != self._in_sync_version:
            raise Fenced(f"the in-sync set is {sorted(self._in_sync)}")

    def _tell(self) -> None:
        for each in self._coordinators:
            if self.chance.random() >= self.watches_lost:
                each.tell(self.state())


class SimCoordinator:
    """One replica's way to the ensemble; `cut` and `pause` make it a bad one."""

    def __init__(self, ensemble: SimEnsemble) -> None:
        self._ensemble = ensemble
        self._clock = ensemble.clock
        self._me: int | None = None
        self._session: int | None = None
        self._contact_ms = 0
        self._linked = True
        self._running = asyncio.Event()
        self._running.set()
        self._changed: Callable[[GroupState], None] = lambda state: None
        self._lost: Callable[[], None] = lambda: None
        self._tasks: set[asyncio.Task[None]] = set()

    # --- what a test does to it -------------------------------------------------------------------

    def cut(self) -> None:
        """Nothing gets through, either way, until `heal`."""
        self._linked = False

    def heal(self) -> None:
        self._linked = True

    def pause(self) -> None:
        """The replica's process stands still, as at SIGSTOP, until `resume`."""
        self._running.clear()

    def resume(self) -> None:
        self._running.set()

    async def running(self) -> None:
        """Come back when the process runs: what else it waits for waits here too."""
        await self._running.wait()

    def die(self) -> None:
        """The process is gone; its session ends when the ensemble notices."""
        self._changed, self._lost = (lambda state: None), (lambda: None)
        self._session = None
        for task in self._tasks:
            task.cancel()

    # --- Coordinator ------------------------------------------------------------------------------

    async def join(self, me: Member) -> GroupState:
        self._me = me.id
        return await self._call(lambda session: self._ensemble.join(me, session), opens=True)

    async def state(self) -> GroupState:
        return await self._call(lambda session: self._ensemble.state())

    async def campaign(
        self, seen: GroupState, in_sync: frozenset[int], *, anyway: bool = False
    ) -> Leadership:
        assert self._me is not None, "who stands has joined"
        me = self._me
        return await self._call(
            lambda session: self._ensemble.campaign(me, session, seen, in_sync, anyway=anyway)
        )

    async def change_in_sync(
        self, lead: Leadership, seen: GroupState, in_sync: frozenset[int]
    ) -> GroupState:
        return await self._call(lambda session: self._ensemble.change_in_sync(lead, seen, in_sync))

    async def resign(self, lead: Leadership, to: int | None = None) -> None:
        await self._call(lambda session: self._ensemble.resign(lead, to))

    def watch(self, changed: Callable[[GroupState], None], lost: Callable[[], None]) -> None:
        self._changed = changed
        self._lost = lost

    async def close(self) -> None:
        session = self._session
        self.die()
        if session is not None and self._reachable:
            self._ensemble.end_session(session)

    # --- what the ensemble does to it -------------------------------------------------------------

    def beat(self, now_ms: int) -> None:
        """Be heard of; find out that the session is over, by word or by the own clock."""
        if self._session is None or not self._running.is_set():
            return
        if self._reachable:
            if self._ensemble.hear(self._session):
                self._contact_ms = now_ms
                return
        elif now_ms - self._contact_ms < self._ensemble.session_ms:
            return
        self._session = None
        self._lost()

    def tell(self, state: GroupState) -> None:
        if self._linked:
            self._later(self._told(state))

    async def _told(self, state: GroupState) -> None:
        await self._way()
        await self._running.wait()
        if self._linked and self._session is not None:
            self._changed(state)

    # --- messages ---------------------------------------------------------------------------------

    async def _call(self, ask: Callable[[int], T], *, opens: bool = False) -> T:
        await self._running.wait()
        if opens and self._session is None and self._reachable:
            self._session = self._ensemble.new_session()
            self._contact_ms = self._clock.monotonic_ms()
        session = self._session
        await self._way()
        if not self._reachable:
            await self._clock.sleep(self._ensemble.session_ms // 3)
            await self._running.wait()
            raise CoordinatorAway("the ensemble does not answer")
        if session is None or not self._ensemble.hear(session):
            await self._running.wait()
            raise CoordinatorAway("the session is over")
        try:
            answer: T | Fenced = ask(session)
        except Fenced as error:
            answer = error
        await self._way()
        await self._running.wait()
        if not self._reachable or session != self._session:
            raise CoordinatorAway("the answer was lost")
        if isinstance(answer, Fenced):
            raise answer
        return answer

    @property
    def _reachable(self) -> bool:
        return self._linked and self._ensemble.up

    async def _way(self) -> None:
        if self._ensemble.late_ms:
            await self._clock.sleep(self._ensemble.chance.randrange(1, self._ensemble.late_ms))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
