"""Where topics live, as the NameServers say; asked once, then remembered and kept fresh.

A route that was confirmed lately is used as it is. An older one is asked for anew, and used all the
same if no NameServer answers, or if they have lost it only a moment ago: a NameServer that was
started again knows a topic when its brokers have registered, half a minute later at most.

A topic that no NameServer knows may still be sent to: the route of TBW102 names the brokers that
would create it. Such a route is a guess and is not remembered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from rocketpipe.client.name_servers import NameServerClient
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.errors import ConnectionLost, NoRoute
from rocketpipe.model.names import AUTO_CREATE_TOPIC
from rocketpipe.model.route import BrokerAddresses, TopicRoute
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger(__name__)

#: How many queues a topic gets that a send creates, unless the broker allows fewer.
NEW_TOPIC_QUEUES: Final = 4

#: So long a route is good without being asked for again: the session asks twice meanwhile.
FRESH_MS: Final = 60_000

#: So long a route is used after NameServers first said that they do not know it any more.
LOST_MS: Final = 60_000

MAX_ROUTES: Final = 4096

_unanswered = LogBudget()


@dataclass(slots=True)
class _Entry:
    route: TopicRoute
    #: When a NameServer last gave it, and until when it need not be asked again.
    confirmed_ms: int
    fresh_until_ms: int
    #: When a NameServer first said that it does not know the topic, if none gave it since.
    denied_ms: int | None = None


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
            if _unanswered.allows():
                log.warning(
                    "route not confirmed topic=%s reason=%s%s",
                    topic,
                    error,
                    _unanswered.suppressed(),
                )
            return entry.route

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
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

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
        route = _ordered(found)
        while len(self._entries) >= self._max_routes:
            del self._entries[next(iter(self._entries))]
        self._entries[topic] = _Entry(route, now_ms, now_ms + FRESH_MS)
        if before is None or before.route != route:
            self._on_changed(topic)
        return route

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
