"""Three replicas with real role keepers, and logs that are lists, on a clock that is turned.

What is simulated is what a replica does in its roles: connecting, cutting, copying, reporting,
acknowledging, and the upkeep of the in-sync set. Who has which role, and when, is for the real
`RoleKeeper` and a `SimEnsemble` to decide.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from rocketpipe.broker.replication.role import RoleKeeper
from rocketpipe.coordination.coordinator import (
    CoordinatorAway,
    Fenced,
    Leader,
    Leadership,
    Member,
)
from rocketpipe.testing import ManualClock
from rocketpipe.testing.coordinator import SimCoordinator, SimEnsemble

#: The epoch that wrote it, and which one it is.
Record = tuple[int, int]

TICK_MS = 10
#: A follower that was not heard of for so long is taken out of the set.
SILENT_MS = 300


class OwnClock:
    """A process's clock: who sleeps does not wake while the process stands still."""

    def __init__(self, clock: ManualClock, coordinator: SimCoordinator) -> None:
        self._clock = clock
        self._coordinator = coordinator

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    async def sleep(self, duration_ms: int) -> None:
        await self._clock.sleep(duration_ms)
        await self._coordinator.running()


@dataclass
class Term:
    """What a leader knows of its followers."""

    epoch: int
    in_sync: frozenset[int]
    #: Without whose report nothing is acknowledged: the set, and whatever is pending.
    required: set[int]
    #: What may have been acknowledged: by this leader, or by those before it.
    acked: int = 0
    reports: dict[int, int] = field(default_factory=dict)
    heard_ms: dict[int, int] = field(default_factory=dict)
    change: asyncio.Task[None] | None = None


@dataclass(frozen=True)
class Report:
    """A follower's word, on its way to a leader."""

    due_ms: int
    leader: int
    epoch: int
    sender: int
    end: int


class SimReplica:
    """The duties of one replica; what is in `log` and `joined` outlives its process."""

    def __init__(self, id_: int, group: SimGroup) -> None:
        self.id = id_
        self.log: list[Record] = []
        self.joined = 0
        self.clean = True
        self.alive = False
        self.paused = False
        #: Whether other replicas reach it.
        self.linked = True
        self.fails_to_lead = False
        self.has_word = False
        self.follows: Leader | None = None
        self.connected: int | None = None  # the epoch of its connection
        self.term: Term | None = None
        self.told: list[str] = []
        self._group = group

    # --- Duties

    def member(self) -> Member:
        return Member(
            id=self.id,
            address=f"replica-{self.id}",
            ha_address=f"replica-{self.id}-ha",
            log_end=len(self.log),
            last_epoch=self.joined,
            clean=self.clean,
        )

    async def follow(self, leader: Leader | None) -> None:
        assert self.term is None, "who follows does not lead"
        self.told.append(f"follow {leader.id if leader else None}")
        self.follows, self.connected = leader, None

    def stop_following(self) -> None:
        self.told.append("stop following")
        self.follows = self.connected = None

    async def lead(self, lead: Leadership) -> None:
        self._group.demand(self.clean or self.has_word, "unclean, and leads")
        self._group.demand(self.follows is None and self.connected is None, "leads and follows")
        self.told.append(f"lead {lead.leader.epoch}")
        epoch = lead.leader.epoch
        self._group.leads(self.id, epoch)
        await self.clock.sleep(self._group.chance.randrange(1, 50))
        if self.fails_to_lead:
            raise OSError("the disk says no")
        self.joined = epoch
        self.log.append((epoch, self._group.serial()))
        in_sync = lead.state.in_sync
        self.term = Term(epoch, in_sync, set(in_sync - {self.id}), acked=len(self.log))

    def step_down(self, reason: str) -> None:
        self.told.append(f"step down: {reason}")
        if self.term is not None and self.term.change is not None:
            self.term.change.cancel()
        self.term = None

    # --- its process

    def start(self) -> None:
        assert not self.alive
        self.alive = True
        self.coordinator = self._group.ensemble.coordinator()
        self.clock = OwnClock(self._group.clock, self.coordinator)
        chance = Random(self._group.chance.random())
        self.keeper = RoleKeeper(self.coordinator, self, self.clock, chance, me=self.id)
        self._task = asyncio.create_task(self.keeper.run())

    async def kill(self) -> None:
        """As ``kill -9``: nobody is told, and what it had in memory is gone."""
        self.coordinator.die()
        self._task.cancel()
        self.coordinator.resume()
        await asyncio.wait([self._task])
        if not self._task.cancelled() and (error := self._task.exception()) is not None:
            raise error
        self.alive = self.paused = False
        self.follows = self.connected = self.term = None

    async def crash(self, lost: int) -> None:
        """Its machine goes down, and with it the end of its log."""
        await self.kill()
        del self.log[max(0, len(self.log) - lost) :]
        self.clean = False

    def resign_soon(self, to: int | None) -> None:
        """As an operator asks for it; what comes of it is the keeper's."""

        async def resign() -> None:
            try:
                await self.keeper.resign(to)
            except (CoordinatorAway, Fenced):
                pass

        self._resigning = asyncio.create_task(resign())

    def pause(self) -> None:
        self.paused = True
        self.coordinator.pause()

    def resume(self) -> None:
        self.paused = False
        self.coordinator.resume()

    @property
    def runs(self) -> bool:
        return self.alive and not self.paused


class SimGroup:
    """The replicas, their network, and the promise that is checked after each tick."""

    def __init__(
        self, seed: int = 0, replicas: int = 3, *, late_ms: int = 0, watches_lost: float = 0.0
    ) -> None:
        self.clock = ManualClock()
        self.chance = Random(seed)
        self.ensemble = SimEnsemble(
            self.clock, Random(seed + 1), late_ms=late_ms, watches_lost=watches_lost
        )
        self.replicas = {id_: SimReplica(id_, self) for id_ in range(1, replicas + 1)}
        #: Who led in which epoch.
        self.terms: dict[int, int] = {}
        self.acked: list[Record] = []
        self._reports: list[Report] = []
        self._serial = 0
        self._broken: list[str] = []
        self._session_task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> SimGroup:
        self._session_task = asyncio.create_task(self.ensemble.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        for replica in self.replicas.values():
            if replica.alive:
                await replica.kill()
        assert self._session_task is not None
        self._session_task.cancel()
        await asyncio.wait([self._session_task])

    def __getitem__(self, id_: int) -> SimReplica:
        return self.replicas[id_]

    def serial(self) -> int:
        self._serial += 1
        return self._serial

    def leads(self, id_: int, epoch: int) -> None:
        self.demand(epoch not in self.terms, f"{self.terms.get(epoch)}, {id_} lead in {epoch}")
        # One that was stopped between its election and here may begin behind its successor.
        own = max((each for each, who in self.terms.items() if who == id_), default=0)
        self.demand(epoch > own, f"{id_} leads in {own}, then in {epoch}")
        self.terms[epoch] = id_

    def demand(self, holds: bool, what: str) -> None:
        """Inside duties, where an error is the keeper's to handle."""
        if not holds:
            self._broken.append(what)

    @property
    def leader(self) -> SimReplica | None:
        """Who leads as it believes itself, in the newest epoch."""
        leading = [r for r in self.replicas.values() if r.runs and r.term is not None]
        return max(leading, key=lambda r: r.term.epoch if r.term else 0, default=None)

    async def turn(self, duration_ms: int) -> None:
        for _ in range(duration_ms // TICK_MS):
            await self.clock.advance(TICK_MS)
            self._tick()

    async def until(self, holds: Callable[[], object], most_ms: int = 30_000) -> None:
        for _ in range(most_ms // TICK_MS):
            if holds():
                return
            await self.turn(TICK_MS)
        raise AssertionError(f"not within {most_ms} ms: {self.ensemble.state()}")

    # --- one tick of everything

    def _tick(self) -> None:
        running = [replica for replica in self.replicas.values() if replica.runs]
        self.chance.shuffle(running)
        for replica in running:
            self._connect(replica)
            self._copy(replica)
        self._deliver()
        for replica in running:
            if replica.term is not None:
                replica.log.append((replica.term.epoch, self.serial()))
                self._acknowledge(replica, replica.term)
                self._keep_set(replica, replica.term)
        self.check()

    def _source(self, replica: SimReplica) -> SimReplica | None:
        if replica.follows is None or not replica.linked:
            return None
        source = self.replicas[replica.follows.id]
        return source if source.runs and source.linked and source.term is not None else None

    def _connect(self, replica: SimReplica) -> None:
        source = self._source(replica)
        if source is None or source.term is None or replica.connected == source.term.epoch:
            return
        replica.connected = None
        if source.term.epoch < replica.joined:
            return  # a fenced leader
        replica.joined = source.term.epoch
        common = 0
        for mine, theirs in zip(replica.log, source.log, strict=False):
            if mine != theirs:
                break
            common += 1
        del replica.log[common:]
        replica.connected = source.term.epoch

    def _copy(self, replica: SimReplica) -> None:
        source = self._source(replica)
        if source is None or source.term is None or replica.connected != source.term.epoch:
            return
        end = len(replica.log)
        replica.log += source.log[end : end + self.chance.randrange(1, 20)]
        if not replica.clean and len(replica.log) >= source.term.acked:
            replica.clean = True  # it has all again that was ever acknowledged
            replica.keeper.look_again()
        due_ms = self.clock.monotonic_ms() + self.chance.choice((0, 0, 0, 10, 50, 200))
        self._reports.append(
            Report(due_ms, source.id, source.term.epoch, replica.id, len(replica.log))
        )

    def _deliver(self) -> None:
        """Reports may come after their sender closed; to a leader of another epoch they do not."""
        now_ms = self.clock.monotonic_ms()
        late = []
        for report in self._reports:
            leader = self.replicas[report.leader]
            if report.due_ms > now_ms or leader.paused:
                late.append(report)
            elif leader.term is not None and leader.term.epoch == report.epoch:
                ends = leader.term.reports
                ends[report.sender] = max(report.end, ends.get(report.sender, 0))
                leader.term.heard_ms[report.sender] = now_ms
        self._reports = late

    def _acknowledge(self, leader: SimReplica, term: Term) -> None:
        end = min((term.reports.get(id_, 0) for id_ in term.required), default=len(leader.log))
        term.acked = max(term.acked, end)
        for at in range(len(self.acked), end):
            self.acked.append(leader.log[at])
        assert leader.log[:end] == self.acked[:end], f"{leader.id} acknowledged something else"

    def _keep_set(self, leader: SimReplica, term: Term) -> None:
        if term.change is not None and not term.change.done():
            return
        now_ms = self.clock.monotonic_ms()
        for id_ in self.replicas.keys() - {leader.id}:
            silent = now_ms - term.heard_ms.setdefault(id_, now_ms) > SILENT_MS
            behind = len(leader.log) - term.reports.get(id_, 0)
            if id_ in term.required and silent:
                term.change = asyncio.create_task(self._change(leader, term, without=id_))
                return
            if id_ in term.reports.keys() - term.in_sync and behind < 5 and not silent:
                term.required.add(id_)
            # Required from now on; what was acknowledged without it, it has to have before.
            if id_ in term.required - term.in_sync and term.reports.get(id_, 0) >= term.acked:
                term.change = asyncio.create_task(self._change(leader, term, also=id_))
                return

    async def _change(
        self, leader: SimReplica, term: Term, *, without: int = 0, also: int = 0
    ) -> None:
        wanted = (term.in_sync | {also}) - {without, 0}
        try:
            await leader.keeper.change_in_sync(wanted)
        except (CoordinatorAway, Fenced):
            return  # it is not known: whoever is pending stays required
        term.in_sync = wanted
        term.required.discard(without)

    def check(self) -> None:
        """Each acknowledged record is in the log of every in-sync member that may stand."""
        assert not self._broken
        state = self.ensemble.state()
        assert state.leader is None or state.leader.id in state.in_sync
        for id_ in state.in_sync:
            if not self.replicas[id_].clean:
                continue  # it knows, and does not stand
            log = self.replicas[id_].log
            assert log[: len(self.acked)] == self.acked, f"{id_} lacks what was acknowledged"
