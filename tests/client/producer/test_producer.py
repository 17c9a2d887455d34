"""Sending, to real servers and to some that misbehave."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.client.producer.support.broker_parts import LOST, SILENT, world
from tests.waiting import PATIENCE_S, until

from rocketpipe import Admin, Message, MessageQueue, Producer, PullConsumer, SendResult
from rocketpipe.client.faults import Variant
from rocketpipe.client.producer.sending.batching import Batching
from rocketpipe.client.session import Session
from rocketpipe.errors import (
    CallTimeout,
    ConnectionLost,
    InvalidName,
    MessageRefused,
    NoRoute,
    ProducerFull,
    PropertiesError,
    RequestRejected,
    SessionClosed,
    WrongThread,
)
from rocketpipe.model.properties import decode_bytes
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.record.batch import decode_batch
from rocketpipe.testing import cluster

# Against our own servers


async def test_a_result_says_where_the_message_is(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        result = await producer.send(
            "orders", b"body", tags="paid", keys=["A1", "A2"], properties={"city": "Oslo"}
        )
        assert result.durable is True
        assert result.queue.topic == "orders"
        assert result.region == "DefaultRegion"
        async with PullConsumer(servers.name_server, group="g") as consumer:
            await consumer.subscribe("orders")
            (message,) = await consumer.poll()
        assert message.message_id == result.message_id == result.transaction_id
        assert message.offset_id == result.offset_id
        assert (message.queue_id, message.queue_offset) == (
            result.queue.queue_id,
            result.queue_offset,
        )
        assert (message.tags, message.keys, message.body) == ("paid", ("A1", "A2"), b"body")
        assert message.user_properties == {"city": "Oslo"}


async def test_sends_side_by_side_spread_evenly_and_have_ids_of_their_own(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        sends = (producer.send("orders", b"x", timeout_ms=PATIENCE_S * 1000) for _ in range(100))
        results = await asyncio.gather(*sends)
    assert len({result.message_id for result in results}) == 100
    assert set(Counter(result.queue.queue_id for result in results).values()) == {25}


async def test_a_topic_that_a_send_makes_with_one_queue_is_totally_ordered(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers:
        async with Producer(servers.name_server, new_topic_queues=1) as producer:
            places = [await producer.send("ledger", b"%d" % number) for number in range(20)]
            async with producer.staged("app", 1) as batch:
                await batch.send("staged", b"x")
        async with Admin(servers.name_server) as admin:
            made = [await admin.topics.show(name) for name in ("ledger", "staged")]
    assert {place.queue.queue_id for place in places} == {0}
    assert [place.queue_offset for place in places] == list(range(20))
    assert [[held.write_queues for held in info.route.queues] for info in made] == [[1], [1]]


@pytest.mark.parametrize("queues", [0, -1, (1 << 16) + 1])
def test_a_topic_gets_one_queue_at_least_and_not_any_number(queues: int) -> None:
    with pytest.raises(ValueError, match=f"new_topic_queues {queues}: 1 to 65536"):
        Producer("127.0.0.1:1", new_topic_queues=queues)


async def test_all_ways_of_sending_arrive(tmp_path: Path) -> None:
    told: list[SendResult | Exception] = []
    async with (
        cluster(tmp_path) as servers,
        Producer(servers.name_server) as producer,
        Producer(servers.name_server, batching=Batching()) as piling,
    ):
        await producer.send(Message("orders", b"whole"))
        await producer.send_async("orders", b"async", callback=told.append)
        await producer.send_oneway("orders", b"oneway")
        await producer.send("orders", b"long" * 5000)
        batch = await producer.send_batch([Message("orders", b"b1"), Message("orders", b"b2")])
        assert batch[1].queue_offset == batch[0].queue_offset + 1
        assert len({result.offset_id for result in batch}) == 2
        await asyncio.gather(*(piling.send("orders", b"p%d" % number) for number in range(20)))
        await until(lambda: len(told) == 1)
        assert isinstance(told[0], SendResult)
        wanted = {b"whole", b"async", b"oneway", b"long" * 5000, b"b1", b"b2"}
        wanted |= {b"p%d" % number for number in range(20)}
        found: set[bytes] = set()
        async with PullConsumer(servers.name_server, group="g") as consumer:
            await consumer.subscribe("orders")
            async with asyncio.timeout(PATIENCE_S):
                while not wanted <= found:
                    found |= {message.body for message in await consumer.poll()}


async def test_messages_of_an_order_are_in_one_queue_in_their_order(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        await producer.send("orders", b"first")
        places: dict[int, list[SendResult]] = {}
        for number in range(100):
            result = await producer.send(
                "orders",
                f"Hello {number}".encode(),
                tags=f"Tag{'ABCDE'[number % 5]}",
                keys=[f"KEY{number}"],
                order_by=number % 10,
            )
            places.setdefault(number % 10, []).append(result)
    for order, results in places.items():
        assert {result.queue.queue_id for result in results} == {order % 4}
        offsets = [result.queue_offset for result in results]
        assert offsets == sorted(offsets)


async def test_a_chosen_queue_is_used_and_one_that_is_not_there_is_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        first = await producer.send("orders", b"x")
        queue = MessageQueue(topic="orders", broker_name=first.queue.broker_name, queue_id=3)
        assert (await producer.send("orders", b"x", queue=queue)).queue == queue
        nowhere = MessageQueue(topic="orders", broker_name=queue.broker_name, queue_id=99)
        with pytest.raises(RequestRejected, match="99"):
            await producer.send("orders", b"x", queue=nowhere)


async def test_the_brokers_own_remark_and_a_next_step_reach_the_sender(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path) as servers,
        Producer(servers.name_server, max_message_bytes=1 << 23, compress_over=None) as producer,
    ):
        with pytest.raises(RequestRejected, match="the most") as refused:
            await producer.send("orders", bytes(4 * 1024 * 1024 + 1))
        assert refused.value.hint


async def test_no_answer_in_time_is_told_as_unknown(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        await producer.send("orders", b"x")
        await producer.send("orders", b"x")
        with pytest.raises(CallTimeout, match="no answer to SendMessage within 0 ms"):
            await producer.send("orders", b"x", timeout_ms=0)


async def test_a_topic_that_no_broker_takes_is_named_with_those_that_are_known() -> None:
    async with name_server(NamesrvConfig(port=0)) as address, Producer(address) as producer:
        with pytest.raises(NoRoute, match=f"'orders': asked {address}") as unknown:
            await producer.send("orders", b"x")
        assert "create it first" in unknown.value.hint


# Before anything is sent


async def test_what_could_not_be_read_back_is_refused_before_anything_is_sent() -> None:
    async with Producer("127.0.0.1:1") as producer:
        with pytest.raises(InvalidName, match="'a b'"):
            await producer.send("a b", b"x")
        with pytest.raises(InvalidName, match="only brokers write to it"):
            await producer.send("SCHEDULE_TOPIC_XXXX", b"x")
        with pytest.raises(PropertiesError, match="KEYS"):
            await producer.send("orders", b"x", properties={"KEYS": "mine"})
        with pytest.raises(MessageRefused, match="empty body"):
            await producer.send("orders", b"")
        with pytest.raises(MessageRefused, match="4194304 are the most"):
            await producer.send_async("orders", bytes((4 << 20) + 1), callback=print)
        with pytest.raises(MessageRefused, match="without messages"):
            await producer.send_batch([])
        with pytest.raises(TypeError, match="whole Message"):
            await producer.send(Message("orders", b"x"), b"y")
        with pytest.raises(TypeError, match="no handle: what has one was sent with delay"):
            await producer.recall("orders", None)
        with pytest.raises(ConnectionLost):
            await producer.send("orders", b"x", properties=None)


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidName, match="DEFAULT_PRODUCER"):
        Producer("127.0.0.1:9876", group="DEFAULT_PRODUCER")
    with pytest.raises(ValueError, match="not negative"):
        Producer("127.0.0.1:9876", timeout_ms=-1)


async def test_a_producer_is_used_inside_its_block() -> None:
    producer = Producer("127.0.0.1:9876")
    with pytest.raises(SessionClosed, match="async with"):
        await producer.send("t", b"x")
    async with producer:
        pass
    with pytest.raises(SessionClosed, match="the producer is not open"):
        await producer.send_oneway("t", b"x")
    assert asyncio.all_tasks() == {asyncio.current_task()}


# Against servers that misbehave


async def test_a_shared_session_is_one_client_to_the_brokers() -> None:
    async with world("a") as here, here.session() as session:
        async with Producer(session, group="one") as one, Producer(session, group="two") as two:
            for producer in (one, two):
                await producer.send("t", b"x")
            assert [request.producer_group for request in here["a"].taken] == ["one", "two"]
        assert session.is_open


async def test_a_callback_hears_of_failure_and_may_itself_fail(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[SendResult | Exception] = []

    def broken(result: SendResult | Exception) -> None:
        told.append(result)
        raise RuntimeError("broken")

    async with world("a") as here, Producer(here.session()) as producer:
        here["a"].next = [2]
        await producer.send_async("t", b"x", callback=told.append)
        await until(lambda: len(told) == 1)
        assert isinstance(told[0], RequestRejected)  # not tried again: it was answered
        here["a"].next = [LOST]
        await producer.send_async("t", b"x", callback=broken)
        await until(lambda: len(told) == 2)
        assert isinstance(told[1], SendResult)  # tried again: it was not

        def bad(*_: object) -> MessageQueue:
            raise KeyError("no queue")

        await producer.send_async("t", b"x", callback=told.append, selector=bad)
        await until(lambda: len(told) == 3)
        assert isinstance(told[2], KeyError)
        assert producer._in_flight.sends == 0
    assert "a callback failed" in caplog.text


async def test_only_so_much_is_under_way_at_a_time() -> None:
    async with world("a") as here, Producer(here.session(), max_in_flight=2) as producer:
        await producer.send("t", b"x")
        here["a"].answers.clear()
        sends = [asyncio.create_task(producer.send("t", b"x")) for _ in range(4)]
        await until(lambda: here["a"].asked == 3)
        waiting = asyncio.create_task(producer.send("t", b"x", timeout_ms=100))
        await until(lambda: len(producer._in_flight._line) == 3)
        await here.clock.advance(100)
        with pytest.raises(ProducerFull, match="2 sends"):
            await waiting
        assert here["a"].asked == 3
        here["a"].answers.set()
        await asyncio.gather(*sends)


async def test_leaving_the_block_finishes_what_is_in_hand() -> None:
    told: list[SendResult | Exception] = []
    async with world("a") as here:
        async with Producer(here.session(), batching=Batching()) as producer:
            for _ in range(3):
                await producer.send_async("t", b"x", callback=told.append)
        assert [type(result) for result in told] == [SendResult] * 3


async def test_a_new_attempt_goes_by_the_newer_route() -> None:
    async with world("a", "b") as here, Producer(here.session()) as producer:
        here.known.routes["t"] = here.route("a")
        assert (await producer.send("t", b"x")).queue.broker_name == "a"
        here.known.routes["t"] = here.route("b")
        here["a"].next = [LOST]
        assert (await producer.send("t", b"x")).queue.broker_name == "b"
        assert (await producer.send("t", b"x")).queue.broker_name == "b"


@pytest.mark.parametrize(
    ("variant", "avoided_ms"), [(Variant.V4, 600_000), (Variant.V5, 10_000), (True, 10_000)]
)
async def test_a_broker_that_failed_returns_after_its_time(
    variant: Variant | bool, avoided_ms: int
) -> None:
    async with world("a", "b") as here:
        async with Producer(here.session(), avoid_slow=variant) as producer:
            here["a"].next = [LOST]
            while here["a"].next:
                await producer.send("t", b"x")
            before = len(here["a"].taken)
            for _ in range(8):
                assert (await producer.send("t", b"x")).queue.broker_name == "b"
            await here.clock.advance(avoided_ms - 1)
            await until(lambda: producer._member.topics() == ("t",))
            for _ in range(8):
                assert (await producer.send("t", b"x")).queue.broker_name == "b"
            await here.clock.advance(1)
            for _ in range(8):
                await producer.send("t", b"x")
            assert len(here["a"].taken) > before


async def test_probes_and_traces_end_with_the_producer() -> None:
    async with world("a") as here:
        here.known.routes["RMQ_SYS_TRACE_TOPIC"] = here.route("a")
        async with Producer(
            here.session(), avoid_slow=Variant.V5, probe=True, trace=True
        ) as producer:
            await producer.send("t", b"x")
        assert [request.topic for request in here["a"].taken] == ["t", "RMQ_SYS_TRACE_TOPIC"]


async def test_a_send_that_is_cancelled_gives_its_room_back() -> None:
    async with world("a") as here, Producer(here.session()) as producer:
        here["a"].next = [SILENT]
        sent = asyncio.create_task(producer.send("t", b"x"))
        await here["a"].arrived.wait()
        sent.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sent
        assert producer._in_flight.sends == 0
        assert (await producer.send("t", b"x")).durable


def test_nothing_is_opened_to_make_one() -> None:
    session = Session("127.0.0.1:9876")
    assert Producer(session).group == "rocketpipe-producer"
    assert Producer(session)._member.consumers() == ()


async def test_a_producer_is_opened_once_at_a_time_and_again_when_it_was_closed() -> None:
    async with world("a") as here:
        producer = Producer(here.session())
        async with producer:
            with pytest.raises(ValueError, match="open already"):
                await producer.__aenter__()
            await producer.send("t", b"x")
        async with producer:
            await producer.send("t", b"y")
        assert len(here["a"].taken) == 2


@pytest.mark.parametrize("batching", [None, Batching()])
async def test_another_thread_is_refused_and_the_producer_stays_as_it_was(
    batching: Batching | None,
) -> None:
    async with world("a") as here, Producer(here.session(), batching=batching) as producer:
        await producer.send("t", b"x")

        def elsewhere() -> None:
            asyncio.run(producer.send("t", b"y"))

        with pytest.raises(WrongThread):
            await asyncio.to_thread(elsewhere)
        assert (await producer.send("t", b"z")).durable


async def test_a_callback_that_cannot_be_called_is_refused_before_anything_is_sent() -> None:
    nothing: Any = None
    async with world("a") as here, Producer(here.session()) as producer:
        with pytest.raises(TypeError, match="cannot be called"):
            await producer.send_async("t", b"x", callback=nothing)
        assert here["a"].asked == 0


async def test_piles_fit_into_what_a_message_may_be_and_their_room_is_given_back() -> None:
    async with world("a") as here:
        batching = Batching(max_count=64)
        async with Producer(here.session(), batching=batching, max_message_bytes=400) as producer:
            await producer.send("t", b"x")
            sends = [producer.send("t", bytes([n]) * 50, tags="a") for n in range(1, 20)]
            results = await asyncio.gather(*sends)
            assert producer._in_flight.sends == producer._in_flight.held_bytes == 0
        assert len({result.message_id for result in results}) == 19
        assert all(len(request.body) <= 400 for request in here["a"].taken)
        entries = [
            entry
            for request in here["a"].taken
            if request.batch
            for entry in decode_batch(request.body)
        ]
        assert len(entries) >= 16
        named = [decode_bytes(entry.raw_properties) for entry in entries]
        assert {each["TAGS"] for each in named} == {"a"}
        assert {each["UNIQ_KEY"] for each in named} <= {each.message_id for each in results}


async def test_one_who_stops_waiting_for_a_pile_leaves_its_message_on_it() -> None:
    async with world("a") as here:
        async with Producer(here.session(), batching=Batching(max_count=3)) as producer:
            await producer.send("t", b"x")
            here["a"].answers.clear()
            leaving, *staying = (
                asyncio.create_task(producer.send("t", b"%d" % number)) for number in range(3)
            )
            await until(lambda: here["a"].asked == 2)
            leaving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaving
            assert producer._in_flight.sends == 3  # they are under way, all of them
            here["a"].answers.set()
            assert [result.queue_offset for result in await asyncio.gather(*staying)] == [101, 102]
        assert [entry.body for entry in decode_batch(here["a"].taken[1].body)] == [b"0", b"1", b"2"]
