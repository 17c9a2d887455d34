"""Reading, from real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.client.consumer.support.fake_broker import PullDesk, desk_and_session, found
from tests.client.consumer.support.records import queue, record
from tests.waiting import PATIENCE_S, until

from rocketpipe import Producer, PullConsumer
from rocketpipe.client.consumer.group.start import StartFrom
from rocketpipe.client.consumer.pull import AUTO_COMMIT_MS
from rocketpipe.client.session import Session
from rocketpipe.errors import (
    FilterError,
    GroupTaken,
    InvalidName,
    NoRoute,
    OffsetOutOfRange,
    OffsetsTaken,
    QueueNotOurs,
    RequestRejected,
    SessionClosed,
    WrongWayToRead,
)
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeFromWhere
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.clients import UnregisterClient
from rocketpipe.protocol.requests.offsets import UpdateConsumerOffset
from rocketpipe.testing import cluster
from rocketpipe.testing.clock import ManualClock

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


async def read(consumer: PullConsumer, count: int) -> list[bytes]:
    bodies: list[bytes] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(bodies) < count:
            bodies += [message.body for message in await consumer.poll()]
    return bodies


@asynccontextmanager
async def assigned(
    desk: PullDesk, session: Session, records: int, **settings: Any
) -> AsyncIterator[PullConsumer]:
    """A consumer of one queue, which begins at 0 and has so many messages, all of them in hand."""
    desk.offsets["t", 0] = 0
    desk.pulls.clear()
    if records:
        desk.answers = [found(*map(record, range(records)), next_offset=records)]
    async with PullConsumer(session, group="g", **settings) as consumer:
        await consumer.assign([queue()])
        await until(lambda: len(desk.pulls) == 1 + bool(records))
        yield consumer


def saved_in(root: Path) -> str:
    (file,) = root.glob("*@DEFAULT/g/offsets.json")
    return file.read_text()


def places_in(root: Path) -> list[str]:
    return sorted(path.parent.name.partition("@")[2] for path in root.glob("*/g"))


async def test_everything_that_was_sent_is_read_once(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        for number in range(100):
            await producer.send("orders", b"%d" % number)
        async with PullConsumer(servers.name_server, group="g") as consumer:
            await consumer.subscribe("orders")
            bodies = await read(consumer, 100)
            assert sorted(map(int, bodies)) == list(range(100))
            assert await consumer.poll(timeout_ms=1) == []


async def test_a_group_goes_on_where_it_committed_and_another_starts_afresh(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        for number in range(8):
            await producer.send("orders", b"%d" % number)
        async with PullConsumer(servers.name_server, group="g") as consumer:
            await consumer.subscribe("orders")
            await read(consumer, 8)
            await consumer.commit()
        await producer.send("orders", b"new")
        async with PullConsumer(servers.name_server, group="g") as consumer:
            await consumer.subscribe("orders")
            assert await read(consumer, 1) == [b"new"]
        async with PullConsumer(servers.name_server, group="h") as consumer:
            await consumer.subscribe("orders")
            assert len(await read(consumer, 9)) == 9


async def test_a_poll_waits_for_what_has_not_been_sent_yet(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        await producer.send("orders", b"first")
        async with PullConsumer(servers.name_server, group="g") as consumer:
            await consumer.subscribe("orders")
            await read(consumer, 1)
            waiting = asyncio.create_task(consumer.poll(timeout_ms=20_000))
            await asyncio.sleep(0)
            await producer.send("orders", b"second")
            assert [message.body for message in await waiting] == [b"second"]


async def test_only_what_was_asked_for_comes(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        for number in range(12):
            price = {"price": str(number)}
            tag = "ABC"[number % 3]
            await producer.send("orders", b"%d" % number, tags=tag, properties=price)
        async with PullConsumer(servers.name_server, group="g") as consumer:
            await consumer.subscribe("orders", tags="A || C")
            bodies = await read(consumer, 8)
            assert sorted(map(int, bodies)) == [0, 2, 3, 5, 6, 8, 9, 11]
            # Another expression counts for what comes from now on.
            await consumer.subscribe("orders", tags="B")
            await producer.send("orders", b"100", tags="A")
            await producer.send("orders", b"101", tags="B")
            assert await read(consumer, 1) == [b"101"]
        async with PullConsumer(servers.name_server, group="h") as consumer:
            await consumer.subscribe("orders", sql="price BETWEEN 5 AND 7")
            assert sorted(map(int, await read(consumer, 3))) == [5, 6, 7]


async def test_wrong_names_and_expressions_are_refused_before_anything_is_asked() -> None:
    with pytest.raises(InvalidName):
        PullConsumer("127.0.0.1:1", group="DEFAULT_CONSUMER")
    with pytest.raises(ValueError, match="auto_commit_ms=999"):
        PullConsumer("127.0.0.1:1", group="g", auto_commit_ms=999)
    with pytest.raises(ValueError, match="batch=0"):
        PullConsumer("127.0.0.1:1", group="g", batch=0)
    async with PullConsumer("127.0.0.1:1", group="g") as consumer:
        with pytest.raises(InvalidName):
            await consumer.subscribe("a b")
        with pytest.raises(FilterError):
            await consumer.subscribe("orders", tags="||")
        with pytest.raises(FilterError):
            await consumer.subscribe("orders", sql="price >")
        with pytest.raises(ValueError, match="not by both"):
            await consumer.subscribe("orders", tags="A", sql="price > 1")
        with pytest.raises(InvalidName):
            await consumer.assign([MessageQueue(topic="a b", broker_name="a", queue_id=0)])


@pytest.mark.parametrize("start", ["first", "last"])
async def test_a_topic_that_is_not_there_yet_is_read_from_its_first_message(
    tmp_path: Path, start: Literal["first", "last"]
) -> None:
    async with (
        cluster(tmp_path) as servers,
        PullConsumer(servers.name_server, group="g", start=start) as consumer,
        Producer(servers.name_server) as producer,
    ):
        await consumer.subscribe("later")
        assert consumer.queues == frozenset()
        assert await consumer.poll(0) == []
        await producer.send("later", b"one")
        consumer._rebalancer.notify()  # which else happens every 20 s
        assert await read(consumer, 1) == [b"one"]


async def test_queues_of_an_unknown_topic_are_refused_by_its_name(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path) as servers,
        PullConsumer(servers.name_server, group="g") as consumer,
    ):
        with pytest.raises(NoRoute, match="'nowhere'"):
            await consumer.queues_of("nowhere")
        with pytest.raises(NoRoute, match="'nowhere'"):
            await consumer.assign([MessageQueue(topic="nowhere", broker_name="a", queue_id=0)])


async def test_a_consumer_that_was_closed_can_be_used_again() -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):
        consumer = PullConsumer(session, group="g", start=FIRST)
        async with consumer:
            await consumer.subscribe("t")
        assert not consumer.queues
        async with consumer:
            await consumer.assign([queue()])
        async with consumer:
            await consumer.subscribe("t")
            assert consumer.queues == set(desk.queues("t"))


# What a consumer may not do


async def test_outside_its_block_a_consumer_says_so() -> None:
    consumer = PullConsumer("127.0.0.1:1", group="g")
    for misuse in (
        consumer.poll(),
        consumer.subscribe("t"),
        consumer.assign([]),
        consumer.commit(),
    ):
        with pytest.raises(SessionClosed, match="async with"):
            await misuse


async def test_a_consumer_subscribes_or_is_assigned_but_not_both() -> None:
    async with desk_and_session(t={"a": 1}) as (_, session):
        async with PullConsumer(session, group="g") as consumer:
            await consumer.assign([queue()])
            with pytest.raises(WrongWayToRead, match=r"subscribe\(\) after assign\(\)"):
                await consumer.subscribe("t")
        async with PullConsumer(session, group="g") as consumer:
            await consumer.subscribe("t")
            with pytest.raises(WrongWayToRead, match=r"assign\(\) after subscribe\(\)"):
                await consumer.assign([queue()])


async def test_one_session_has_one_consumer_of_a_group() -> None:
    async with desk_and_session(t={"a": 1}) as (_, session):
        one, two = (PullConsumer(session, group="g") for _ in range(2))
        async with one, two:
            await one.subscribe("t")
            with pytest.raises(GroupTaken, match="'g'"):
                await two.subscribe("t")
            await two.assign([])  # what is assigned is no member, and disturbs nobody


# What is done


async def test_what_was_asked_past_is_committed_from_time_to_time() -> None:
    clock = ManualClock()
    async with desk_and_session(clock, t={"a": 1}) as (desk, session):
        async with assigned(desk, session, 6) as consumer:
            assert len(await consumer.poll(most=2)) == 2
            await clock.advance(AUTO_COMMIT_MS)
            assert desk.offsets == {("t", 0): 0}, "nobody said yet that these are done"
            await consumer.poll(most=3)
            await clock.advance(AUTO_COMMIT_MS)
            await until(lambda: desk.offsets == {("t", 0): 2})
        assert desk.offsets == {("t", 0): 5}, "left without an error: the last ones are done"


async def test_an_error_leaves_the_last_messages_undone() -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):

        async def handle() -> None:
            async with assigned(desk, session, 6) as consumer:
                await consumer.poll(most=2)
                await consumer.poll(most=2)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await handle()
        assert desk.offsets == {("t", 0): 2}


async def test_without_auto_commit_only_a_commit_counts() -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):
        async with assigned(desk, session, 6, auto_commit=False) as consumer:
            await consumer.poll(most=2)
            await consumer.commit()
            await consumer.poll(most=2)
            await consumer.poll(most=2)
            assert await consumer.committed(queue()) == 2
        assert desk.offsets == {("t", 0): 2}
        async with assigned(desk, session, 0, auto_commit=False) as consumer:
            await consumer.commit({queue(): 1})
        assert desk.offsets == {("t", 0): 1}


async def test_messages_come_one_by_one_and_each_is_done_when_the_next_is_wanted() -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):
        seen: list[int] = []

        async def handle() -> None:
            async with assigned(desk, session, 100) as consumer:
                async for message in consumer:
                    assert message.queue == queue()
                    seen.append(message.queue_offset)
                    if len(seen) == 70:
                        raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await handle()
        assert seen == list(range(70))
        assert desk.offsets == {("t", 0): 69}
        async with assigned(desk, session, 3) as consumer:
            async for _ in consumer:
                break
            assert [each.queue_offset for each in await consumer.poll()] == [1, 2]


# Where


async def test_a_queue_is_read_from_where_it_is_told_to() -> None:
    async with desk_and_session(t={"a": 2}) as (desk, session):
        desk.ends = (10, 90)
        async with assigned(desk, session, 3) as consumer:
            await consumer.seek(queue(), 40)
            assert consumer.position(queue()) == 40
            assert await consumer.poll(timeout_ms=1) == []
            await consumer.seek_to_begin()
            assert consumer.positions() == {queue(): 10}
            await consumer.seek_to_end(queue())
            assert consumer.position(queue()) == 90
            await consumer.seek_to_time(33_000)
            assert consumer.position(queue()) == 33
            await until(lambda: desk.pulls[-1].queue_offset == 33)
            for offset in (9, 91, -1):
                with pytest.raises(OffsetOutOfRange, match=f"offset {offset} .* has 10 to 90"):
                    await consumer.seek(queue(), offset)
            with pytest.raises(QueueNotOurs, match="queue 1 of 't'"):
                await consumer.seek(queue(1), 40)
            with pytest.raises(QueueNotOurs):
                await consumer.seek_to_begin(queue(), queue(1))
            assert consumer.position(queue()) == 33
        assert desk.offsets == {("t", 0): 33}


async def test_queues_are_assigned_anew() -> None:
    async with desk_and_session(t={"a": 3}) as (desk, session):
        desk.offsets.update({("t", 0): 5, ("t", 1): 6, ("t", 2): 7})
        async with PullConsumer(session, group="g") as consumer:
            await consumer.assign(await consumer.queues_of("t"))
            assert consumer.queues == set(desk.queues("t"))
            await consumer.assign([queue(2)])
            assert consumer.positions() == {queue(2): 7}
            await consumer.assign([queue(2), queue(0)])
            assert consumer.positions() == {queue(0): 5, queue(2): 7}
            assert not desk.beating, "queues that are assigned are no business of the group's"


async def test_a_paused_queue_is_silent_until_it_is_resumed() -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):
        async with assigned(desk, session, 4) as consumer:
            await consumer.poll(most=1)
            consumer.pause(queue())
            assert await consumer.poll(timeout_ms=1) == []
            consumer.resume()
            assert [each.queue_offset for each in await consumer.poll()] == [1, 2, 3]
            with pytest.raises(QueueNotOurs):
                consumer.pause(queue(5))


async def test_a_refusal_comes_out_of_poll() -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):
        desk.answers = [RequestRejected(ResponseCode.NO_PERMISSION, "not for you")]
        async with PullConsumer(session, group="g", start=FIRST) as consumer:
            await consumer.assign([queue()])
            with pytest.raises(RequestRejected, match="not for you"):
                await consumer.poll()


async def test_a_subscription_ends() -> None:
    async with desk_and_session(t={"a": 2}, u={"a": 1}) as (desk, session):
        async with PullConsumer(session, group="g", start=FIRST) as consumer:
            await consumer.subscribe("t")
            await consumer.subscribe("u")
            assert consumer.queues == {*desk.queues("t"), *desk.queues("u")}
            await consumer.unsubscribe("t")
            await consumer.unsubscribe("t")
            assert consumer.queues == set(desk.queues("u"))
            assert not desk.count(UnregisterClient)
            await consumer.unsubscribe("u")
            assert not consumer.queues
            assert desk.count(UnregisterClient) == 1
            await consumer.subscribe("t")
            assert consumer.queues == set(desk.queues("t"))
        assert desk.count(UnregisterClient) == 2


async def test_who_gives_up_waiting_has_taken_nothing() -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):
        async with assigned(desk, session, 80) as consumer:
            seen = []
            while len(seen) < 80:
                polling = asyncio.ensure_future(consumer.poll(most=5))
                await asyncio.sleep(0)
                polling.cancel()  # too late, unless it had to wait for something
                done = await asyncio.gather(polling, return_exceptions=True)
                if isinstance(done[0], list):
                    seen += [each.queue_offset for each in done[0]]
            assert seen == list(range(80))


async def test_a_broadcast_group_keeps_its_place_in_a_file(tmp_path: Path) -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):
        for begin in (0, 2):
            desk.answers = [found(record(begin), record(begin + 1), next_offset=begin + 2)]
            async with PullConsumer(
                session, group="g", broadcast=True, start=FIRST, offsets_root=tmp_path
            ) as consumer:
                await consumer.subscribe("t")
                messages = await consumer.poll(timeout_ms=20_000)
                assert [each.queue_offset for each in messages] == [begin, begin + 1]
        assert not desk.count(UpdateConsumerOffset)
        assert ":4}" in saved_in(tmp_path)


async def test_a_new_group_begins_at_a_moment() -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):
        start = StartFrom(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, at_ms=44_000)
        async with PullConsumer(session, group="g", start=start) as consumer:
            await consumer.assign([queue()])
            assert consumer.position(queue()) == 44
            assert desk.offsets == {}


async def test_broadcast_consumers_of_a_machine_each_need_a_place_of_their_own(
    tmp_path: Path,
) -> None:
    async with desk_and_session(t={"a": 1}) as (desk, _):

        def reader(session: str | Session) -> PullConsumer:
            return PullConsumer(session, group="g", broadcast=True, offsets_root=tmp_path)

        again = reader(desk.address)
        async with reader(desk.address):
            with pytest.raises(OffsetsTaken, match="instance="):
                await again.__aenter__()
            async with reader(Session(desk.address, instance="second")) as second:
                assert second.positions() == {}
        async with again:  # the first is gone
            pass
    assert places_in(tmp_path) == ["DEFAULT", "second"]
