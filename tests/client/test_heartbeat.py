"""What brokers are told, by whom, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.client.support.session_parts import Listener, Part, listening

from rocketpipe.client.heartbeat import Heartbeats, heartbeat_data, targets
from rocketpipe.model.route import BrokerAddresses
from rocketpipe.remoting.caller import Caller

A = BrokerAddresses(cluster="c", broker_name="a", addresses={0: "a:0", 1: "a:1"})
B = BrokerAddresses(cluster="c", broker_name="b", addresses={1: "b:1"})


def test_what_members_do_is_told_once_and_in_order() -> None:
    data = heartbeat_data(
        "me", [Part(produces=["p2", "p1"]), Part(produces=["p1"], consumes=["c2", "c1"])]
    )
    assert data.client_id == "me"
    assert [producer.group_name for producer in data.producers] == ["p1", "p2"]
    assert [consumer.group_name for consumer in data.consumers] == ["c1", "c2"]


@pytest.mark.parametrize(
    ("member", "told"),
    [
        (Part(), []),
        (Part(produces=["p"]), ["a:0"]),
        (Part(consumes=["c"]), ["a:0", "a:1", "b:1"]),
        (Part(produces=["p"], consumes=["c"]), ["a:0", "a:1", "b:1"]),
    ],
)
def test_followers_are_told_by_who_reads(member: Part, told: list[str]) -> None:
    assert targets([B, A], heartbeat_data("me", [member])) == told


@asynccontextmanager
async def beating(member: Part, *addresses: str) -> AsyncIterator[Heartbeats]:
    brokers = {
        f"b{n}": BrokerAddresses(cluster="c", broker_name=f"b{n}", addresses={0: address})
        for n, address in enumerate(addresses)
    }
    heartbeats: Heartbeats
    async with Caller(on_connected=lambda address: heartbeats.on_connected(address)) as caller:
        heartbeats = Heartbeats(caller, lambda: heartbeat_data("me", [member]), lambda: brokers)
        yield heartbeats


async def test_one_broker_that_is_gone_does_not_keep_the_others_from_knowing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    listener = Listener()
    async with listening(listener) as address:
        async with beating(Part(produces=["p"]), "127.0.0.1:1", address) as heartbeats:
            await heartbeats.beat()
            await heartbeats.beat()
    assert len(listener.beats) == 2
    assert caplog.text.count("heartbeat not taken broker=127.0.0.1:1") == 1


async def test_a_broker_that_takes_heartbeats_again_is_told_of_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    listener = Listener()
    listener.refuses = True
    async with listening(listener) as address:
        async with beating(Part(produces=["p"]), address) as heartbeats:
            await heartbeats.beat()
            listener.refuses = False
            await heartbeats.beat()
    assert "reason=not now" in caplog.text
    assert "heartbeat taken again" in caplog.text


async def test_who_asks_during_a_round_shares_the_next() -> None:
    listener = Listener()
    listener.answers.clear()
    async with listening(listener) as address:
        async with beating(Part(produces=["p"]), address) as heartbeats:
            first = asyncio.create_task(heartbeats.beat())
            await listener.beaten(1)
            later = [asyncio.create_task(heartbeats.beat()) for _ in range(5)]
            await asyncio.sleep(0)
            listener.answers.set()
            await asyncio.gather(first, *later)
    assert len(listener.beats) == 2


async def test_a_round_that_was_cancelled_stands_for_none() -> None:
    listener = Listener()
    listener.answers.clear()
    async with listening(listener) as address:
        async with beating(Part(produces=["p"]), address) as heartbeats:
            first = asyncio.create_task(heartbeats.beat())
            await listener.beaten(1)
            second = asyncio.create_task(heartbeats.beat())
            third = asyncio.create_task(heartbeats.beat())
            await asyncio.sleep(0)
            first.cancel()
            await listener.beaten(2)
            second.cancel()
            listener.answers.set()
            await third
    assert len(listener.beats) == 3


async def test_only_new_connections_are_told_between_rounds() -> None:
    listener = Listener()
    async with listening(listener) as address:
        async with beating(Part(produces=["p"]), address) as heartbeats:
            await heartbeats.beat()
            await heartbeats.beat_new()
            assert len(listener.beats) == 1
            heartbeats.on_connected(address)
            heartbeats.on_connected("127.0.0.1:1")  # no broker of ours
            await heartbeats.beat_new()
            await heartbeats.beat_new()
    assert len(listener.beats) == 2


async def test_groups_are_left_at_brokers_that_are_connected() -> None:
    told, untold = Listener(), Listener()
    async with listening(told) as one, listening(untold) as other:
        async with beating(Part(produces=["p"]), one) as heartbeats:
            await heartbeats.beat()
            await heartbeats.unregister({"p"}, {"c2", "c1"})
        async with beating(Part(produces=["p"]), other) as heartbeats:
            await heartbeats.unregister({"p"}, {"c"})
    assert told.goodbyes == [("p", None), (None, "c1"), (None, "c2")]
    assert untold.goodbyes == []
