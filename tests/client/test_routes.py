"""Where topics live, asked of real NameServers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketpipe.client.routes import NameServers, RouteCache
from rocketpipe.errors import ConnectionLost, NoRoute, RequestRejected
from rocketpipe.model.route import BrokerAddresses, BrokerQueues, TopicRoute
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.routes import GetRouteInfoByTopic, RouteReply
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.remoting.server import Server
from rocketpipe.testing import cluster


def route(read_queues: int) -> TopicRoute:
    return TopicRoute(
        queues=(BrokerQueues(broker_name="a", read_queues=read_queues, write_queues=8, perm=7),),
        brokers=(BrokerAddresses(cluster="c", broker_name="a", addresses={0: "127.0.0.1:1"}),),
    )


class Directory:
    """A NameServer that knows what it is given, and counts the questions."""

    def __init__(self, **routes: TopicRoute) -> None:
        self.routes = routes
        self.asked: list[str] = []

    @handles(GetRouteInfoByTopic)
    async def find(self, request: GetRouteInfoByTopic, call: Call) -> RouteReply:
        self.asked.append(request.topic)
        if request.topic not in self.routes:
            raise RequestRejected(ResponseCode.TOPIC_NOT_EXIST, "unknown")
        return RouteReply(route=self.routes[request.topic])


async def test_a_route_is_asked_for_once_however_many_want_it() -> None:
    directory = Directory(t=route(4))
    async with Server.bound("127.0.0.1", 0) as server, Caller() as caller:
        async with server.serving(Router(directory).answer):
            cache = RouteCache(caller, NameServers((server.address,)))
            await asyncio.gather(*(cache.get("t") for _ in range(10)))
            assert directory.asked == ["t"]
            cache.forget("t")
            await cache.get("t")
            assert directory.asked == ["t", "t"]


@pytest.mark.parametrize(("offered", "used"), [(8, 4), (2, 2)])
async def test_an_unknown_topic_is_sent_where_it_would_be_created(offered: int, used: int) -> None:
    directory = Directory(TBW102=route(offered))
    async with Server.bound("127.0.0.1", 0) as server, Caller() as caller:
        async with server.serving(Router(directory).answer):
            cache = RouteCache(caller, NameServers((server.address,)))
            guess = await cache.get_for_send("new")
            assert len(guess.writable_queues("new")) == used
            await cache.get_for_send("new")
            assert directory.asked == ["new", "TBW102", "new", "TBW102"]  # a guess is not kept


async def test_no_route_at_the_end_is_an_error_that_names_the_topic() -> None:
    async with Server.bound("127.0.0.1", 0) as server, Caller() as caller:
        async with server.serving(Router(Directory()).answer):
            cache = RouteCache(caller, NameServers((server.address,)))
            with pytest.raises(NoRoute, match=rf"'new': asked {server.address}; .*create it first"):
                await cache.get_for_send("new")
            with pytest.raises(NoRoute, match="'new'"):
                await cache.get("new")


async def test_the_next_name_server_is_asked_when_one_is_gone(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Caller() as caller:
        cache = RouteCache(caller, NameServers(("127.0.0.1:1", servers.name_server)))
        assert (await cache.get("TBW102")).brokers[0].leader == servers.broker


async def test_when_all_are_gone_the_error_names_them() -> None:
    async with Caller() as caller:
        cache = RouteCache(caller, NameServers(("127.0.0.1:1",)))
        with pytest.raises(ConnectionLost, match=r"127.0.0.1:1: no NameServer answers"):
            await cache.get("t")


def test_name_servers_are_read_from_a_list() -> None:
    assert NameServers.parse(" a:1 ; b:2;").addresses == ("a:1", "b:2")


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "no NameServer given"), (";", "no NameServer"), ("a", "not host:port")],
)
def test_a_list_without_addresses_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        NameServers.parse(text)
