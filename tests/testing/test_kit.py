"""Servers, a clock and faults in a test's hand."""

from __future__ import annotations

import asyncio
import logging
import queue
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpipe import Decision, Producer, ReceivedMessage
from rocketpipe.blocking import Producer as BlockingProducer
from rocketpipe.client.producer.retry import Retries
from rocketpipe.errors import ConnectionLost, RequestRejected
from rocketpipe.testing import Kit, ServersFailed, kit

pytestmark = pytest.mark.scenario

WAIT_MS = 30_000
WAIT_S = WAIT_MS / 1000
ONCE = Retries(attempts=1)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Kit]:
    with kit(tmp_path / "data") as made:
        yield made


def test_a_plain_test_sends_and_receives(servers: Kit) -> None:
    with (
        servers.blocking.producer() as producer,
        servers.blocking.simple_consumer(group="shop") as consumer,
    ):
        producer.send("orders", b"one")
        consumer.subscribe("orders")
        assert [each.body for each in consumer.receive(wait_ms=WAIT_MS)] == [b"one"]


async def test_a_test_with_a_loop_of_its_own_sends_and_receives(servers: Kit) -> None:
    async with servers.producer() as producer, servers.admin() as admin:
        await producer.send("orders", b"one")
        assert "orders" in await admin.topics.names()
        async with servers.simple_consumer(group="shop") as consumer:
            await consumer.subscribe("orders")
            assert [each.body for each in await consumer.receive(wait_ms=WAIT_MS)] == [b"one"]


def test_delays_fall_due_when_time_leaps_and_not_before(servers: Kit) -> None:
    with (
        servers.blocking.producer() as producer,
        servers.blocking.simple_consumer(group="shop") as consumer,
    ):
        producer.send("orders", b"timed", delay_ms=16 * 60_000)
        producer.send("orders", b"by level", delay_level=14)  # 10 minutes
        consumer.subscribe("orders")
        servers.clock.advance("9m")
        assert consumer.receive(wait_ms=1) == []
        servers.clock.advance("2m")
        (by_level,) = consumer.receive(wait_ms=WAIT_MS)
        assert by_level.body == b"by level"
        consumer.ack(by_level)
        servers.clock.advance("6m")
        assert [each.body for each in consumer.receive(wait_ms=WAIT_MS)] == [b"timed"]


async def test_what_was_not_acknowledged_comes_again_when_its_lease_expires(servers: Kit) -> None:
    async with servers.producer() as producer, servers.simple_consumer(group="shop") as consumer:
        await producer.send("orders", b"one")
        await consumer.subscribe("orders")
        (first,) = await consumer.receive(wait_ms=WAIT_MS, invisible_ms=10 * 60_000)
        await servers.clock.advance("9m")
        assert await consumer.receive(wait_ms=1) == []
        await servers.clock.advance("2m")
        (again,) = await consumer.receive(wait_ms=WAIT_MS, invisible_ms=60_000)
        assert again.body == first.body
        await consumer.ack(again)
        await servers.clock.advance("1h")
        assert await consumer.receive(wait_ms=1) == []


async def test_a_failed_message_is_retried_each_time_its_moment_comes(servers: Kit) -> None:
    attempts: asyncio.Queue[int] = asyncio.Queue()
    consumer = servers.push_consumer(group="shop")

    @consumer.on("orders")
    async def fail(message: ReceivedMessage) -> None:
        attempts.put_nowait(message.reconsume_times)
        raise RuntimeError("not today")

    async with servers.producer() as producer, consumer:
        await producer.send("orders", b"one")
        seen = []
        async with asyncio.timeout(WAIT_S):
            for _ in range(4):
                while attempts.empty():  # the refusal may still be on its way to the broker
                    await servers.clock.advance("2m")
                seen.append(attempts.get_nowait())
    assert seen == [0, 1, 2, 3]


def test_an_open_transaction_is_asked_about(servers: Kit) -> None:
    asked = threading.Event()

    def check(message: object) -> Decision:
        asked.set()
        return Decision.COMMIT

    with (
        servers.blocking.producer(group="bank", check=check) as producer,
        servers.blocking.simple_consumer(group="shop") as consumer,
        servers.blocking.admin() as admin,
    ):
        admin.topics.create("orders", queues=1)
        with producer.transaction("orders", b"half") as transaction:
            transaction.unknown()
        consumer.subscribe("orders")
        assert consumer.receive(wait_ms=1) == []
        assert not asked.is_set()
        servers.clock.advance("2m")
        assert asked.wait(WAIT_S)
        assert [each.body for each in consumer.receive(wait_ms=WAIT_MS)] == [b"half"]


def test_a_consumer_is_still_a_member_after_days(servers: Kit) -> None:
    got: queue.Queue[bytes] = queue.Queue()
    consumer = servers.blocking.push_consumer(group="shop")
    consumer.subscribe("orders", lambda message: got.put(message.body))
    # One client goes by the kit's clock, the other one by the machine's.
    with BlockingProducer(servers.name_server) as producer:
        producer.send("orders", b"before")
        with consumer:
            assert got.get(timeout=WAIT_S) == b"before"
            servers.clock.advance("3d")
            producer.send("orders", b"after")
            assert got.get(timeout=WAIT_S) == b"after"


def test_a_dropped_ack_is_a_message_that_is_stored_and_not_confirmed(servers: Kit) -> None:
    with (
        servers.blocking.producer(retries=ONCE) as producer,
        servers.blocking.simple_consumer(group="shop") as consumer,
    ):
        servers.faults.drop_next_ack()
        with pytest.raises(ConnectionLost):
            producer.send("orders", b"in doubt")
        producer.send("orders", b"confirmed")
        consumer.subscribe("orders")
        got: set[bytes] = set()
        while len(got) < 2:
            got |= {each.body for each in consumer.receive(wait_ms=WAIT_MS)}
        assert got == {b"in doubt", b"confirmed"}


async def test_refused_sends_store_nothing_and_say_what_the_test_says(servers: Kit) -> None:
    async with servers.producer() as producer, servers.admin() as admin:
        await producer.send("orders", b"one")
        servers.faults.refuse_sends(code=13, remark="too long for today")
        with pytest.raises(RequestRejected, match="too long for today"):
            await producer.send("orders", b"two")
        servers.faults.heal()
        servers.faults.refuse_sends(2)  # busy: the producer tries again, and the third time is good
        await producer.send("orders", b"three")
        assert (await admin.topics.stats("orders")).messages == 2


def test_a_full_disk_refuses_until_it_heals(servers: Kit) -> None:
    with servers.blocking.producer(retries=ONCE) as producer:
        producer.send("orders", b"one")
        servers.faults.full_disk()
        with pytest.raises(RequestRejected, match="No space left") as refused:
            producer.send("orders", b"two")
        assert refused.value.retryable
        servers.faults.heal()
        producer.send("orders", b"three")


@pytest.mark.parametrize("how", ["restart", "kill"])
async def test_what_was_acknowledged_is_there_after(how: str, servers: Kit) -> None:
    address = servers.broker
    async with servers.producer() as producer, servers.simple_consumer(group="shop") as consumer:
        await producer.send("orders", b"now")
        await producer.send("orders", b"later", delay_ms=3_600_000)
        await consumer.subscribe("orders")
        await getattr(servers, how)()
        assert servers.broker == address
        assert [each.body for each in await consumer.receive(wait_ms=WAIT_MS)] == [b"now"]
        await producer.send("orders", b"again")
        assert [each.body for each in await consumer.receive(wait_ms=WAIT_MS)] == [b"again"]
        await servers.clock.advance("61m")
        bodies = {each.body for each in await consumer.receive(wait_ms=WAIT_MS)}
        assert b"later" in bodies


def test_a_killed_broker_leaves_what_a_killed_process_leaves(
    servers: Kit, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    servers.kill()
    assert "clean=False" in caplog.text
    servers.restart()
    assert "clean=True" in caplog.text
    assert not [each for each in caplog.records if each.levelno > logging.INFO]


async def test_dropped_connections_are_made_again(servers: Kit) -> None:
    async with servers.producer() as producer:
        await producer.send("orders", b"one")
        await servers.drop_connections()
        await producer.send("orders", b"two")


def test_clusters_of_one_process_know_nothing_of_each_other(tmp_path: Path) -> None:
    with kit(tmp_path / "a") as first, kit(tmp_path / "b") as second:
        assert len({first.name_server, first.broker, second.name_server, second.broker}) == 4
        before_ms = second.clock.monotonic_ms()
        first.clock.advance("1d")
        assert second.clock.monotonic_ms() - before_ms < 3_600_000


async def test_nothing_is_left_when_the_block_ends(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with kit(tmp_path) as servers:
        addresses = servers.name_server, servers.broker
    assert set(threading.enumerate()) <= before
    for address in addresses:
        host, _, port = address.rpartition(":")
        with pytest.raises(ConnectionRefusedError), socket.create_connection((host, int(port))):
            pass
    async with Producer(servers.name_server) as producer:
        with pytest.raises(ConnectionLost):
            await producer.send("orders", b"too late")


def test_settings_of_the_broker_can_be_others(tmp_path: Path) -> None:
    with (
        kit(tmp_path, auto_create_topics=False) as servers,
        servers.blocking.producer() as producer,
        pytest.raises(Exception, match="orders"),
    ):
        producer.send("orders", b"one")


def test_servers_that_cannot_start_say_why(tmp_path: Path) -> None:
    with kit(tmp_path), pytest.raises(ServersFailed, match="lock"), kit(tmp_path):
        pass
