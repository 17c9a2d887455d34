"""Where topics live, as the NameServers say; asked once, then remembered and kept fresh.

A route that was confirmed lately is used as it is. An older one is asked for anew, and used all the
same if no NameServer answers, or if they have lost it only a moment ago: a NameServer that was
started again knows a topic when its brokers have registered, half a minute later at most.

A topic that no NameServer knows may still be sent to: the route of TBW102 names the brokers that
would create it. Such a route is a guess and is not remembered.

What is said of a broker's addresses counts for every topic that it holds, so that one question is
enough when its leader is another. Whoever finds a route wanting has it renewed: one question at a
time, however many wait for it, at once and then after 100, 200, 400 … 1000 ms.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from rocketpipe.client.leaders import Leaders, is_moved
from rocketpipe.client.name_servers import NameServerClient
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.errors import (
    CallTimeout,
    ConnectionLost,
    NoRoute,
    RequestRejected,
    RocketPipeError,
)
from rocketpipe.model.names import AUTO_CREATE_TOPIC
from rocketpipe.model.route import BrokerAddresses, TopicRoute
from rocketpipe.protocol.refusals import leader_in
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger(__name__)

#: How many queues a topic gets that a send creates, unless the broker allows fewer.
NEW_TOPIC_QUEUES: Final = 4

#: So long a route is good without being asked for again: the session asks twice meanwhile.
FRESH_MS: Final = 60_000

#: So long a route is used after NameServers first said that they do not know it any more.
LOST_MS: Final = 60_000

MAX_ROUTES: Final = 4096

#: The pauses between renewals of a route that is found wanting again and again.
FIRST_PAUSE_MS: Final = 100
LONGEST_PAUSE_MS: Final = 400
#: After so long without one, the next renewal does not wait.
CALM_MS: Final = 3000

_unanswered = LogBudget()


@dataclass(slots=True)
class _Entry:
    route: TopicRoute
    #: When a NameServer last gave it, and until when it need not be asked again.
    confirmed_ms: int
    fresh_until_ms: int
    #: When a NameServer first said that it does not know the topic, if none gave it since.
    denied_ms: int | None = None


@dataclass(slots=True)
class _Pace:
    """When a route was last renewed, and how long the next renewal waits after that."""

    asked_ms: int
    pause_ms: int


class RouteCache:
    """Routes by topic, each asked for by one request at a time."""

    def __init__(
        self,
        directory: NameServerClient,
        *,
        clock: Clock | None = None,
        on_changed: Callable[[str], None] = lambda _: None,
        max_routes: int = MAX_ROUTES,
    ) -> None:
        """Take who is told of each topic whose route is new, another or gone."""
        self._directory = directory
        self._clock = clock or SystemClock()
        self._on_changed = on_changed
        self._max_routes = max_routes
        #: The one that was asked for longest ago comes first.
        self._entries: dict[str, _Entry] = {}
        self._asking: dict[str, asyncio.Task[TopicRoute | None]] = {}
        #: The brokers that make topics on a send, as last told: what was sent is at one of them.
        self._makers: dict[str, BrokerAddresses] = {}
        self.leaders = Leaders(self._clock)
        self._paces: dict[str, _Pace] = {}
        self._renewing: dict[str, asyncio.Task[None]] = {}
        self._pausing: set[str] = set()

    async def get(self, topic: str) -> TopicRoute:
        """The route of a topic that exists.

        Raises:
            NoRoute: If no NameServer knows the topic.
            ConnectionLost: If no NameServer can be reached, and the route is not remembered.
        """
        entry = self._entries.get(topic)
        if entry is not None and self._clock.monotonic_ms() < entry.fresh_until_ms:
            return entry.route
        route = await self.refresh(topic)
        if route is None:
            raise await self._no_route(topic, "send to it, or create it, first")
        return route

    async def get_for_send(self, topic: str, new_queues: int = NEW_TOPIC_QUEUES) -> TopicRoute:
        """The route of a topic, or that of the brokers which would create it with so many queues.

        Raises:
            NoRoute: If the topic is unknown and no broker creates topics on a send.
            ConnectionLost: If no NameServer can be reached, and the route is not remembered.
        """
        entry = self._entries.get(topic)
        if entry is not None and self._clock.monotonic_ms() < entry.fresh_until_ms:
            return entry.route
        route = await self.refresh(topic)
        if route is not None:
            return route
        pattern = await self._ask(AUTO_CREATE_TOPIC)
        if pattern is None:
            raise await self._no_route(topic, "no broker creates topics on a send: create it first")
        pattern = self._addressed(pattern)
        self._makers = {broker.broker_name: broker for broker in pattern.brokers}
        return _narrowed(pattern, new_queues)

    async def refresh(self, topic: str) -> TopicRoute | None:
        """Ask for a route now; None if no NameServer knows the topic.

        Raises:
            ConnectionLost: If no NameServer can be reached, and the route is not remembered.
        """
        try:
            return self._note(topic, await self._ask(topic))
        except ConnectionLost as error:
            entry = self._entries.get(topic)
            if entry is None:
                raise
            if _unanswered.allows(error):
                log.warning(
                    "route not confirmed topic=%s reason=%s%s",
                    topic,
                    error,
                    _unanswered.suppressed(),
                )
            return entry.route

    # Routes that are found wanting

    def learn(self, topic: str, name: str, address: str | None, error: RocketPipeError) -> None:
        """Take what an error says of the brokers of a name, one of which was asked about a topic.

        If the leader may be another, the route is renewed; nobody waits for it here.
        """
        if address is not None:
            leader = leader_in(error.remark) if isinstance(error, RequestRejected) else None
            if leader is not None and self.leaders.told(name, address, leader):
                log.info("leader named broker=%s leader=%s by=%s", name, leader, address)
                self._readdress(name)
            elif leader is None and is_moved(error) and self.leaders.failed(name, address):
                log.info("leader as named fails broker=%s leader=%s", name, address)
        if is_moved(error) or isinstance(error, CallTimeout):
            self._renew(topic)

    def suspect(self, topic: str) -> None:
        """Have a route renewed; nobody waits for it here."""
        self._renew(topic)

    async def renew(self, topic: str) -> None:
        """Wait until a route was asked for anew, by whoever did so; see ``remembered``."""
        await asyncio.wait([self._renew(topic)])

    def is_calm(self, topic: str) -> bool:
        """Whether a renewal would ask at once, or is asking."""
        if topic in self._renewing:
            return topic not in self._pausing
        pace = self._paces.get(topic)
        return pace is None or self._clock.monotonic_ms() >= pace.asked_ms + pace.pause_ms

    def _renew(self, topic: str) -> asyncio.Task[None]:
        renewing = self._renewing.get(topic)
        if renewing is None:
            renewing = asyncio.create_task(self._renew_in_time(topic), name=f"renew {topic}")
            self._renewing[topic] = renewing
            renewing.add_done_callback(lambda _: self._renewing.pop(topic, None))
        return renewing

    async def _renew_in_time(self, topic: str) -> None:
        now_ms = self._clock.monotonic_ms()
        pace = self._paces.get(topic)
        if pace is None or now_ms - pace.asked_ms >= CALM_MS:
            while len(self._paces) >= self._max_routes:
                del self._paces[next(iter(self._paces))]
            pace = self._paces[topic] = _Pace(now_ms, FIRST_PAUSE_MS)
        else:
            wait_ms = pace.asked_ms + pace.pause_ms - now_ms
            if wait_ms > 0:
                self._pausing.add(topic)
                try:
                    await self._clock.sleep(wait_ms)
                finally:
                    self._pausing.discard(topic)
            pace.asked_ms = self._clock.monotonic_ms()
            pace.pause_ms = min(2 * pace.pause_ms, LONGEST_PAUSE_MS)
            self._directory.turn()  # one that was not told yet would go on saying the same
        try:
            await self.refresh(topic)
        except RocketPipeError as error:
            log.debug("route not renewed topic=%s reason=%s", topic, error)

    def remembered(self, topic: str) -> TopicRoute | None:
        """The route as it was last known, if it is known; nobody is asked."""
        entry = self._entries.get(topic)
        return entry.route if entry else None

    def forget(self, topic: str) -> None:
        """Ask anew next time: what was remembered turned out stale."""
        entry = self._entries.get(topic)
        if entry is not None:
            entry.fresh_until_ms = self._clock.monotonic_ms()

    def drop(self, topic: str) -> None:
        """Forget all about a topic: it is known to be gone."""
        if self._entries.pop(topic, None) is not None:
            self._on_changed(topic)

    def brokers(self) -> dict[str, BrokerAddresses]:
        """Every broker that a remembered route names, or that made a topic, by its name."""
        latest = sorted(self._entries.values(), key=lambda entry: entry.confirmed_ms)
        named = {broker.broker_name: broker for entry in latest for broker in entry.route.brokers}
        return {**self._makers, **named}

    async def close(self) -> None:
        """Ask no more; whoever waits for an answer gets none."""
        tasks = [*self._renewing.values(), *self._asking.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, topic: str) -> TopicRoute | None:
        self._directory.check_process()  # before waiting for what another process began
        asking = self._asking.get(topic)
        if asking is None:
            asking = asyncio.create_task(self._directory.route(topic), name=f"route of {topic}")
            self._asking[topic] = asking
            asking.add_done_callback(lambda task: self._asked(topic, task))
        await asyncio.wait([asking])  # it has a deadline; it goes on if one who waits gives up
        if asking.cancelled():
            raise ConnectionLost(str(self._directory.servers), "the session was closed meanwhile")
        return asking.result()

    def _asked(self, topic: str, task: asyncio.Task[TopicRoute | None]) -> None:
        del self._asking[topic]
        if not task.cancelled():
            task.exception()  # whoever waited has it; perhaps nobody waits any more

    def _note(self, topic: str, found: TopicRoute | None) -> TopicRoute | None:
        now_ms = self._clock.monotonic_ms()
        before = self._entries.pop(topic, None)
        if found is None:
            if before is None:
                return None
            # Not counted from the last answer: they may have been away for longer than that.
            if before.denied_ms is None:
                before.denied_ms = now_ms
            if now_ms - before.denied_ms < LOST_MS:
                self._entries[topic] = before
                return before.route
            log.info("route gone topic=%s", topic)
            self._on_changed(topic)
            return None
        route = self._addressed(_ordered(found))
        while len(self._entries) >= self._max_routes:
            del self._entries[next(iter(self._entries))]
        self._entries[topic] = _Entry(route, now_ms, now_ms + FRESH_MS)
        if before is None or before.route != route:
            self._on_changed(topic)
            self._spread(route)
        return route

    def _addressed(self, route: TopicRoute) -> TopicRoute:
        brokers = tuple(map(self.leaders.seen, route.brokers))
        if brokers == route.brokers:
            return route
        return msgspec.structs.replace(route, brokers=brokers)

    def _readdress(self, name: str) -> None:
        """Have the leader of a name be the one that was named, in every route."""
        for entry in self._entries.values():
            broker = entry.route.broker(name)
            if broker is not None:
                self._spread(self._addressed(entry.route))
                return

    def _spread(self, newest: TopicRoute) -> None:
        """Have other topics' routes say of these brokers what the newest one does."""
        told = {broker.broker_name: broker for broker in newest.brokers}
        changed: list[str] = []
        for topic, entry in self._entries.items():
            route = entry.route
            brokers = tuple(told.get(each.broker_name, each) for each in route.brokers)
            if brokers != route.brokers:
                entry.route = msgspec.structs.replace(route, brokers=brokers)
                changed.append(topic)
        for topic in changed:
            self._on_changed(topic)

    async def _no_route(self, topic: str, next_step: str) -> NoRoute:
        known = await self._directory.hint(topic)
        hint = f"{known}; {next_step}" if known else next_step
        return NoRoute(topic, str(self._directory.servers), hint)


def _ordered(route: TopicRoute) -> TopicRoute:
    # NameServers list brokers in any order, and two of them in different ones.
    return msgspec.structs.replace(
        route,
        queues=tuple(sorted(route.queues, key=lambda held: held.broker_name)),
        brokers=tuple(sorted(route.brokers, key=lambda broker: broker.broker_name)),
    )


def _narrowed(pattern: TopicRoute, new_queues: int) -> TopicRoute:
    queues = tuple(
        msgspec.structs.replace(
            held,
            read_queues=min(new_queues, held.read_queues),
            write_queues=min(new_queues, held.read_queues),
        )
        for held in pattern.queues
    )
    return msgspec.structs.replace(pattern, queues=queues)
