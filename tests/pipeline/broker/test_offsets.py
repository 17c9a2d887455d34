"""What real servers tell planners."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from tests.client.consumer.support.fake_broker import desk_and_session
from tests.waiting import until

from rocketpipe.client.admin.admin import Admin
from rocketpipe.errors import ConnectionLost
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.broker import offsets
from rocketpipe.pipeline.broker.offsets import SETTLING_MS, BrokerOffsets
from rocketpipe.pipeline.planning.offset_reader import OffsetReader, UnknownTopic
from rocketpipe.pipeline.planning.ranges import QueueRange
from rocketpipe.protocol.requests.kv import DRAINED_NAMESPACE
from rocketpipe.protocol.requests.routes import GetRouteInfoByTopic
from rocketpipe.remoting.log_budget import LogBudget
from rocketpipe.testing import Cluster
from rocketpipe.testing.clock import ManualClock


@pytest.fixture
def places(servers: Cluster) -> Any:
    with contextlib.closing(BrokerOffsets(servers.name_server, "planners")) as opened:
        yield opened


def queue_of(topic: str, number: int, broker: str = "broker-a") -> MessageQueue:
    return MessageQueue(topic=topic, broker_name=broker, queue_id=number)


def test_topics_queues_and_ends_are_the_brokers(
    places: OffsetReader, servers: Cluster, send_raw: Any
) -> None:
    for _ in range(3):
        send_raw("places-ends", b"x" * 100, queue_id=1)
    assert "places-ends" in places.topics()
    assert not any(name.startswith(("%", "TBW")) for name in places.topics())
    queues = places.queues("places-ends")
    assert queues == [queue_of("places-ends", number) for number in range(4)]
    ends = places.ends(queues)
    assert [ends[each] for each in queues] == [(0, 0), (0, 3), (0, 0), (0, 0)]
    assert places.addresses() == {"broker-a": servers.broker}
    sizes = places.sizes(
        [
            QueueRange(queues[1], QueueOffset(0), QueueOffset(3)),
            QueueRange(queues[0], QueueOffset(0), QueueOffset(1)),
        ]
    )
    assert sizes.keys() == {queues[1]}  # of the other one nothing is there to go by
    assert 3 * 190 < sizes[queues[1]] < 3 * 400


def test_times_are_looked_up(places: OffsetReader, send_raw: Any) -> None:
    send_raw("places-times", b"x")
    queue = places.queues("places-times")[0]
    assert places.at_time(queue, 0) == 0
    assert places.at_time(queue, 1 << 45) == 1


def test_an_unknown_topic_is_named_with_those_there_are(
    places: OffsetReader, send_raw: Any
) -> None:
    send_raw("places-orders", b"x")
    with pytest.raises(UnknownTopic, match=r"'places-order' .*'places-orders'"):
        places.queues("places-order")


def test_a_queue_that_cannot_be_asked_is_left_out(places: OffsetReader, send_raw: Any) -> None:
    send_raw("places-part", b"x")
    there, gone = queue_of("places-part", 0), queue_of("places-part", 0, "broker-z")
    assert places.ends([there, gone]) == {there: (0, 1)}


def test_an_outage_is_one_line_however_many_queues_and_rounds(
    places: BrokerOffsets,
    send_raw: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    send_raw("places-outage", b"x")
    for budget in ("_unreachable", "_uncommitted"):
        monkeypatch.setattr(offsets, budget, LogBudget())
    gone = [queue_of("places-outage", number, "broker-z") for number in range(4)]
    for _ in range(3):
        assert places.ends(gone) == {}
        assert not places.commit(dict.fromkeys(gone, QueueOffset(1)))
    said = [record.getMessage() for record in caplog.records if "broker-z" in record.getMessage()]
    assert [line.split(" ")[:2] for line in said] == [["queues", "cannot"], ["progress", "not"]]


def test_where_the_queues_of_a_drained_broker_ended_is_known_to_name_servers(
    places: OffsetReader, servers: Cluster
) -> None:
    read = [queue_of("orders", number, broker) for broker in ("left", "away") for number in (0, 1)]
    assert places.drained(read) == {}

    async def leave() -> None:
        async with Admin(servers.name_server) as admin:
            await admin.name_servers.put(DRAINED_NAMESPACE, "left", "drained")
            await admin.name_servers.put(DRAINED_NAMESPACE, "left@orders", "0:42;x:1;2")

    asyncio.run(leave())
    assert places.drained(read) == {read[0]: 42, read[1]: 0}


def test_no_name_server_is_said() -> None:
    with contextlib.closing(BrokerOffsets("127.0.0.1:1", "planners")) as places:
        with pytest.raises(ConnectionLost, match="no NameServer answers"):
            places.topics()


def test_progress_is_told_also_for_a_group_that_no_broker_knew(
    places: BrokerOffsets, servers: Cluster, send_raw: Any
) -> None:
    send_raw("places-lag", b"x")
    send_raw("places-lag", b"y")
    there, gone = queue_of("places-lag", 0), queue_of("places-lag", 9)
    assert places.commit({there: QueueOffset(1)})
    assert not places.commit({gone: QueueOffset(1)})

    async def lag() -> int:
        async with Admin(servers.name_server) as admin:
            return (await admin.offsets.of_group("planners", "places-lag"))[0].lag

    assert asyncio.run(lag()) == 1


# Queues that several brokers have


async def test_planners_wait_for_a_new_leader_and_do_not_ask_followers() -> None:
    queue = queue_of("t", 0, "a")
    async with desk_and_session(t={"a": 1}) as (desk, _):
        led = {0: desk.address, 1: "127.0.0.1:1"}
        desk.replicas["a"] = led
        with contextlib.closing(BrokerOffsets(desk.address, "planners")) as places:
            assert await asyncio.to_thread(places.ends, [queue]) == {queue: (0, 100)}
            desk.replicas["a"] = {1: "127.0.0.1:1"}
            places._routes.clear()
            asking = asyncio.create_task(asyncio.to_thread(places.ends, [queue]))
            asked = desk.count(GetRouteInfoByTopic)
            await until(lambda: desk.count(GetRouteInfoByTopic) >= asked + 3)
            assert not asking.done()
            desk.replicas["a"] = led
            assert await asking == {queue: (0, 100)}
            await asyncio.to_thread(places.close)


async def test_a_queue_that_a_new_leader_has_less_of_is_left_out_for_a_while() -> None:
    queue = queue_of("t", 0, "a")
    async with desk_and_session(t={"a": 1}) as (desk, _):
        desk.replicas["a"] = {0: desk.address, 1: "127.0.0.1:1"}
        places, clock = BrokerOffsets(desk.address, "planners"), ManualClock()
        places._session.clock = clock
        try:
            assert await asyncio.to_thread(places.ends, [queue]) == {queue: (0, 100)}
            desk.ends = (0, 90)
            assert await asyncio.to_thread(places.ends, [queue]) == {}
            desk.ends = (0, 110)
            assert await asyncio.to_thread(places.ends, [queue]) == {queue: (0, 110)}
            desk.ends = (0, 90)
            assert await asyncio.to_thread(places.ends, [queue]) == {}
            await clock.advance(SETTLING_MS)
            assert await asyncio.to_thread(places.ends, [queue]) == {queue: (0, 90)}
            desk.replicas["a"] = {0: desk.address}
            await clock.advance(60_000)
            desk.ends = (0, 80)
            assert await asyncio.to_thread(places.ends, [queue]) == {queue: (0, 80)}
        finally:
            await asyncio.to_thread(places.close)
