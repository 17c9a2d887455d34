"""Who leads: asked of the NameServer, as clients do, and often enough to see changes happen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from rocketpipe.cli.children.events import Event, Tell, seconds
from rocketpipe.cli.cluster.layout import Kind, Layout, Place
from rocketpipe.clock import Clock
from rocketpipe.errors import RocketPipeError
from rocketpipe.protocol.requests.replication import GetEpochCache, GetHaStatus, GetSyncState
from rocketpipe.protocol.requests.routes import GetBrokerClusterInfo
from rocketpipe.remoting.caller import Caller

LOOK_EVERY_MS: Final = 200
_ANSWER_MS: Final = 1_000

LEADER: Final = "leader"
FOLLOWER: Final = "follower"


@dataclass(slots=True)
class Term:
    """Who leads a group of brokers, and since when nobody did before."""

    leader: str | None = None
    #: Since when the group has no leader that can do anything.
    lost_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How a broker says that it stands; all is None if it says nothing."""

    leads: bool | None = None
    #: Where its log ends.
    end: int | None = None
    #: Of its leadership if it leads, else of what came last from a leader.
    epoch: int | None = None
    #: The addresses of those in sync, if it leads replicas.
    in_sync: frozenset[str | None] | None = None
    #: Its id among the replicas, which it keeps whoever leads.
    id: int | None = None
    #: Whether it has a leader that it follows now.
    follows: bool = False


class Roles:
    """Knows the role of each broker of one cluster, and tells of each new leader."""

    def __init__(
        self,
        layout: Layout,
        caller: Caller,
        clock: Clock,
        *,
        able: Callable[[str], bool],
        tell: Tell,
    ) -> None:
        """Take who says whether a broker can do its work: is neither paused nor cut off."""
        self._layout = layout
        self._able = able
        self._caller = caller
        self._clock = clock
        self._tell = tell
        self._brokers = {place.address: place for place in layout.of_kind(Kind.BROKER)}
        now_ms = clock.monotonic_ms()
        self._terms = {place.group: Term(lost_ms=now_ms) for place in self._brokers.values()}
        self._registered: dict[str, str] = {}
        #: Whether the NameServer was away, and may not know everybody yet.
        self._forgetful = False
        #: Whether each group has had a leader.
        self.complete = asyncio.Event()

    def role(self, name: str, progress: Progress) -> str | None:
        """What a broker is registered as; what it says itself, while there is no NameServer.

        One that says that it does not lead is believed. One that is not registered, and believes
        that it leads, has no role.
        """
        if progress.leads is False:
            return FOLLOWER
        if self._forgetful and progress.leads:
            return LEADER
        return self._registered.get(name)

    def leader(self, group: str) -> str | None:
        """The name of the broker that leads, or led last."""
        return self._terms[group].leader

    def hit(self, name: str) -> None:
        """Something was done to a broker. If it led, its group has nobody from now on."""
        for term in self._terms.values():
            if term.leader == name and term.lost_ms is None:
                term.lost_ms = self._clock.monotonic_ms()

    async def keep_watching(self) -> NoReturn:
        """Ask, again and again."""
        while True:
            try:
                await self.look()
            except RocketPipeError:
                pass  # nobody knows more than before
            await self._clock.sleep(LOOK_EVERY_MS)

    async def look(self) -> None:
        """Ask once.

        Raises:
            RocketPipeError: The NameServer does not answer.
        """
        request = GetBrokerClusterInfo()
        try:
            reply = await self._caller.call(self._layout.name_server, request, _ANSWER_MS)
        except RocketPipeError:
            self._forgetful = True
            raise
        found: dict[str, str] = {}
        for each in reply.cluster_brokers.brokers.values():
            for broker_id, address in each.addresses.items():
                if (place := self._brokers.get(address)) is not None:
                    found[place.name] = FOLLOWER if broker_id else LEADER
        self._registered = found
        for group, term in self._terms.items():
            leading = [
                place.name
                for place in self._brokers.values()
                if place.group == group and found.get(place.name) == LEADER
            ]
            await self._seen(term, leading[0] if leading else None)
        if all(term.leader in found for term in self._terms.values()):
            self._forgetful = False
            self.complete.set()

    async def _seen(self, term: Term, leader: str | None) -> None:
        if leader is None:
            if not self._forgetful:
                self._lost(term)
            return
        (place,) = (each for each in self._brokers.values() if each.name == leader)
        if leader == term.leader and term.lost_ms is None:
            # What is registered may be old: it may have stepped down just now.
            if (await self.progress([place]))[leader].leads is False:
                self._lost(term)
            return
        if leader == term.leader and not await self._still_leads(place):
            return
        lost_ms, term.leader, term.lost_ms = term.lost_ms, leader, None
        now_ms = self._clock.monotonic_ms()
        await self._tell_of(place, now_ms - lost_ms if lost_ms is not None else None)

    def _lost(self, term: Term) -> None:
        if term.leader is not None and term.lost_ms is None:
            term.lost_ms = self._clock.monotonic_ms()
            self._tell(Event(term.leader, "lost", f"{term.leader} leads no longer"))

    async def _still_leads(self, place: Place) -> bool:
        """Whether one that something was done to does its work; the NameServer may be wrong."""
        if not self._able(place.name):
            return False
        return (await self.progress([place]))[place.name].leads is True

    async def _tell_of(self, place: Place, after_ms: int | None) -> None:
        epoch = (await self.progress([place]))[place.name].epoch
        text = f"{place.name} leads"
        if epoch is not None:
            text += f", epoch {epoch}"
        if after_ms is not None:
            text += f", after {seconds(after_ms)}"
        facts = {"epoch": epoch, "after_ms": after_ms, "address": place.address}
        self._tell(Event(place.name, "leads", text, facts))

    async def progress(self, places: Iterable[Place]) -> dict[str, Progress]:
        """How far brokers are, by name; nothing is known of one that does not answer."""
        asked = list(places)
        # Masters by setting know their slaves by id alone.
        known = {(place.group, place.broker_id): place.address for place in asked}
        answers = await asyncio.gather(*(self._progress_of(place, known) for place in asked))
        return {place.name: answer for place, answer in zip(asked, answers, strict=True)}

    async def _progress_of(self, place: Place, known: Mapping[tuple[str, int], str]) -> Progress:
        try:
            told = (await self._caller.call(place.address, GetHaStatus(), _ANSWER_MS)).status
        except RocketPipeError:
            return Progress()
        if not told.leads:
            epoch, number = await self._last_epoch(place)
            follows = told.following.master is not None
            return Progress(False, told.following.log_end, epoch, id=number, follows=follows)
        try:
            reply = await self._caller.call(place.address, GetSyncState(), _ANSWER_MS)
        except RocketPipeError:
            return Progress(True, told.log_end)  # it has just stepped down
        group = reply.replicas.groups.get(place.group)
        if group is None or not group.epoch:
            return Progress(True, told.log_end)
        in_sync = frozenset(
            each.address or known.get((place.group, each.id)) for each in group.in_sync
        )
        return Progress(True, told.log_end, group.epoch, in_sync, group.leader_id)

    async def _last_epoch(self, place: Place) -> tuple[int | None, int | None]:
        """The epoch of what a follower got last, and which replica it is."""
        try:
            cache = (await self._caller.call(place.address, GetEpochCache(), _ANSWER_MS)).cache
        except RocketPipeError:
            return None, None
        return cache.epochs[-1].epoch if cache.epochs else None, cache.broker_id
