"""Where topics live, as the NameServers say; asked once, then remembered.

A topic that no NameServer knows may still be sent to: the route of TBW102 names the brokers that
would create it. Such a route is a guess and is not remembered.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import msgspec

from rocketpipe.errors import ConnectionLost, NoRoute, RequestRejected, RocketPipeError
from rocketpipe.model.names import AUTO_CREATE_TOPIC
from rocketpipe.model.route import TopicRoute
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.routes import GetRouteInfoByTopic
from rocketpipe.remoting.caller import Caller, split_address

NEW_TOPIC_QUEUES: Final = 4
"""How many queues a topic gets that a send creates, unless the broker allows fewer."""


@dataclass(frozen=True, slots=True)
class NameServers:
    """The NameServers to ask, in order; ``a:9876;b:9876`` in text."""

    addresses: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> NameServers:
        """Read a list of addresses.

        Raises:
            ValueError: If one of them is not host:port, or there is none.
        """
        addresses = tuple(part.strip() for part in text.split(";") if part.strip())
        if not addresses:
            raise ValueError("no NameServer given: name one as host:port, several with ';' between")
        for address in addresses:
            split_address(address)
        return cls(addresses)

    def __str__(self) -> str:
        return ";".join(self.addresses)


class RouteCache:
    """Routes by topic, each asked for by one request at a time."""

    def __init__(self, caller: Caller, name_servers: NameServers) -> None:
        self._caller = caller
        self._name_servers = name_servers
        self._routes: dict[str, TopicRoute] = {}
        self._asking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def get(self, topic: str) -> TopicRoute:
        """The route of a topic that exists.

        Raises:
            NoRoute: If no NameServer knows the topic.
            ConnectionLost: If no NameServer can be reached.
        """
        async with self._asking[topic]:
            route = self._routes.get(topic)
            if route is None:
                route = await self._ask(topic)
                if route is None:
                    raise NoRoute(topic, str(self._name_servers), "send to it, or create it, first")
                self._routes[topic] = route
            return route

    async def get_for_send(self, topic: str) -> TopicRoute:
        """The route of a topic, or that of the brokers which would create it.

        Raises:
            NoRoute: If the topic is unknown and no broker creates topics on a send.
            ConnectionLost: If no NameServer can be reached.
        """
        try:
            return await self.get(topic)
        except NoRoute:
            pattern = await self._ask(AUTO_CREATE_TOPIC)
            if pattern is None:
                raise NoRoute(
                    topic,
                    str(self._name_servers),
                    "no broker creates topics on a send: create it first",
                ) from None
            return _narrowed(pattern)

    def forget(self, topic: str) -> None:
        """Ask anew next time: what was remembered turned out stale."""
        self._routes.pop(topic, None)

    async def _ask(self, topic: str) -> TopicRoute | None:
        failure: RocketPipeError | None = None
        for address in self._name_servers.addresses:
            try:
                reply = await self._caller.call(address, GetRouteInfoByTopic(topic=topic))
            except RequestRejected as error:
                if error.code == ResponseCode.TOPIC_NOT_EXIST:
                    return None
                failure = error
            except RocketPipeError as error:
                failure = error
            else:
                return reply.route
        raise ConnectionLost(str(self._name_servers), f"no NameServer answers: {failure}")


def _narrowed(pattern: TopicRoute) -> TopicRoute:
    queues = tuple(
        msgspec.structs.replace(
            held,
            read_queues=min(NEW_TOPIC_QUEUES, held.read_queues),
            write_queues=min(NEW_TOPIC_QUEUES, held.read_queues),
        )
        for held in pattern.queues
    )
    return msgspec.structs.replace(pattern, queues=queues)
