"""Which servers are asked, and what is said when only some of them can."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.support.name_server_parts import KnownTopics, served

from rocketpipe.client.admin.fleet import AT_ONCE, Fleet, NoBroker, PartlyDone, each
from rocketpipe.client.session import Session
from rocketpipe.errors import ConnectionLost, RequestRejected
from rocketpipe.protocol.requests.kv import GetKeyValue, PutKeyValue
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.remoting.server import Server
from rocketpipe.testing import Cluster

NOBODY = "127.0.0.1:1"


async def test_brokers_are_found_by_cluster_and_by_name(fleet: Fleet, servers: Cluster) -> None:
    (name,) = await fleet.brokers()
    (cluster,) = (await fleet.everyone()).clusters
    assert await fleet.leaders() == {name: servers.broker}
    assert await fleet.leaders(cluster=cluster, broker=name) == {name: servers.broker}


async def test_a_name_that_is_none_is_answered_with_those_that_are(fleet: Fleet) -> None:
    (name,) = await fleet.brokers()
    with pytest.raises(NoBroker, match=f"no broker 'x': there are these brokers: {name}"):
        await fleet.leaders(broker="x")
    with pytest.raises(NoBroker, match="no cluster 'x': there are these clusters: "):
        await fleet.leaders(cluster="x")


async def test_what_only_some_did_is_told_by_name(fleet: Fleet, servers: Cluster) -> None:
    request = PutKeyValue(namespace="n", key="k", value="v")
    with pytest.raises(PartlyDone, match="done at good, not at bad") as caught:
        await fleet.tell({"good": servers.name_server, "bad": NOBODY}, request)
    assert caught.value.done == ("good",)
    assert list(caught.value.failed) == ["bad"]
    assert caught.value.retryable
    assert (await fleet.call(servers.name_server, GetKeyValue(namespace="n", key="k"))).value == "v"


async def test_a_single_server_fails_with_its_own_error(fleet: Fleet) -> None:
    with pytest.raises(ConnectionLost):
        await fleet.tell({"bad": NOBODY}, PutKeyValue(namespace="n", key="k", value="v"))


def test_a_long_list_of_failures_is_cut() -> None:
    failed = {f"b{n}": RequestRejected(1, "no") for n in range(7)}
    error = PartlyDone([], failed)
    assert str(error).startswith("done at none, not at b0 (no (code 1)); ")
    assert "2 more" in str(error)
    assert not error.retryable


async def test_a_server_without_brokers_says_so() -> None:
    async with served(KnownTopics()) as address, Session(address) as session:
        with pytest.raises(RequestRejected):  # it does not even know the question
            await Fleet(session).brokers()


async def test_only_so_many_are_asked_at_a_time() -> None:
    running = most = 0

    async def act(key: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return key * 2

    results = await each(range(100), act)
    assert results == {key: key * 2 for key in range(100)}
    assert most == AT_ONCE


async def test_a_follower_that_names_its_leader_is_not_the_end_of_it(
    fleet: Fleet, servers: Cluster
) -> None:
    request = PutKeyValue(namespace="n", key="moved", value="v")
    async with Server.bound("127.0.0.1", 0) as server:
        refusal = RequestRejected(14, f"not the leader leader={servers.name_server}")
        async with server.serving(Router(Refusing(refusal)).answer):
            await fleet.tell({"it": server.address}, request)
            asked = GetKeyValue(namespace="n", key="moved")
            assert (await fleet.call(servers.name_server, asked)).value == "v"
            for refusal.remark in ("not the leader", f"it is me leader={server.address}"):
                with pytest.raises(RequestRejected):
                    await fleet.tell({"it": server.address}, request)


class Refusing:
    def __init__(self, refusal: RequestRejected) -> None:
        self.refusal = refusal

    @handles(PutKeyValue)
    async def put(self, request: PutKeyValue, call: Call) -> None:
        raise self.refusal
