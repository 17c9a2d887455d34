"""Sending, to real servers."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from rocketpipe import Producer, PullConsumer
from rocketpipe.errors import CallTimeout, InvalidName, NoRoute, PropertiesError, RequestRejected
from rocketpipe.namesrv.server import name_server
from rocketpipe.testing import cluster


async def test_a_result_says_where_the_message_is(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        result = await producer.send(
            "orders", b"body", tags="paid", keys=["A1", "A2"], properties={"city": "Oslo"}
        )
        assert result.durable is True
        assert result.queue.topic == "orders"
        async with PullConsumer(servers.name_server, group="g") as consumer:
            await consumer.subscribe("orders")
            (message,) = await consumer.poll()
        assert message.message_id == result.message_id
        assert (message.queue_id, message.queue_offset) == (
            result.queue.queue_id,
            result.queue_offset,
        )
        assert (message.tags, message.keys, message.body) == ("paid", ("A1", "A2"), b"body")
        assert message.user_properties == {"city": "Oslo"}


async def test_sends_side_by_side_spread_evenly_and_have_ids_of_their_own(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        results = await asyncio.gather(*(producer.send("orders", b"x") for _ in range(100)))
    assert len({result.message_id for result in results}) == 100
    assert set(Counter(result.queue.queue_id for result in results).values()) == {25}


async def test_what_could_not_be_read_back_is_refused_before_anything_is_sent() -> None:
    async with Producer("127.0.0.1:1") as producer:
        with pytest.raises(InvalidName, match="'a b'"):
            await producer.send("a b", b"x")
        with pytest.raises(InvalidName, match="only brokers write to it"):
            await producer.send("SCHEDULE_TOPIC_XXXX", b"x")
        with pytest.raises(PropertiesError, match="KEYS"):
            await producer.send("orders", b"x", properties={"KEYS": "mine"})


async def test_a_topic_that_no_broker_takes_is_named() -> None:
    async with name_server(port=0) as address, Producer(address) as producer:
        with pytest.raises(NoRoute, match="'orders'"):
            await producer.send("orders", b"x")


async def test_the_brokers_own_remark_reaches_the_sender(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        with pytest.raises(RequestRejected, match="the most"):
            await producer.send("orders", bytes(4 * 1024 * 1024 + 1))


async def test_no_answer_in_time_is_told_as_unknown(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        await producer.send("orders", b"x")
        with pytest.raises(CallTimeout, match="no answer to SendMessage within 0 ms"):
            await producer.send("orders", b"x", timeout_ms=0)


def test_the_reserved_group_is_refused() -> None:
    with pytest.raises(InvalidName, match="DEFAULT_PRODUCER"):
        Producer("127.0.0.1:9876", group="DEFAULT_PRODUCER")
