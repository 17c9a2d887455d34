"""A NameServer that knows what a test gives it, and counts the questions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from rocketpipe.client.name_servers import NameServerClient, NameServers
from rocketpipe.client.routes import RouteCache
from rocketpipe.clock import Clock
from rocketpipe.errors import RequestRejected
from rocketpipe.model.route import BrokerAddresses, BrokerQueues, TopicRoute
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.routes import (
    GetAllTopics,
    GetRouteInfoByTopic,
    GetSystemTopics,
    RouteReply,
    TopicNames,
    TopicNamesReply,
)
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.remoting.server import Server


def route(read_queues: int, *names: str) -> TopicRoute:
    """A route whose brokers have these names, in this order."""
    names = names or ("a",)
    return TopicRoute(
        queues=tuple(
            BrokerQueues(broker_name=name, read_queues=read_queues, write_queues=8, perm=7)
            for name in names
        ),
        brokers=tuple(
            BrokerAddresses(cluster="c", broker_name=name, addresses={0: "127.0.0.1:1"})
            for name in names
        ),
    )


class KnownTopics:
    """Answers as a NameServer does."""

    def __init__(self, **routes: TopicRoute) -> None:
        self.routes = routes
        self.asked: list[str] = []
        self.refuses: str | None = None

    @handles(GetRouteInfoByTopic)
    async def find(self, request: GetRouteInfoByTopic, call: Call) -> RouteReply:
        self.asked.append(request.topic)
        if self.refuses is not None:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, self.refuses)
        if request.topic not in self.routes:
            raise RequestRejected(ResponseCode.TOPIC_NOT_EXIST, "unknown")
        return RouteReply(route=self.routes[request.topic])

    @handles(GetAllTopics)
    async def all(self, request: GetAllTopics, call: Call) -> TopicNamesReply:
        return TopicNamesReply(names=TopicNames(topics=frozenset(self.routes)))

    @handles(GetSystemTopics)
    async def own(self, request: GetSystemTopics, call: Call) -> TopicNamesReply:
        return TopicNamesReply(names=TopicNames(topics=frozenset({"c", "broker-a"})))


@asynccontextmanager
async def served(known: object) -> AsyncIterator[str]:
    """Serve it on a free port, inside the block."""
    async with Server.bound("127.0.0.1", 0) as server:
        async with server.serving(Router(known).answer):
            yield server.address


@asynccontextmanager
async def cache_of(
    *addresses: str,
    clock: Clock | None = None,
    on_changed: Callable[[str], None] = lambda _: None,
    max_routes: int = 100,
) -> AsyncIterator[RouteCache]:
    """A cache that asks these NameServers in this order."""
    async with Caller() as caller:
        directory = NameServerClient(caller, NameServers(addresses))
        cache = RouteCache(directory, clock=clock, on_changed=on_changed, max_routes=max_routes)
        try:
            yield cache
        finally:
            await cache.close()
