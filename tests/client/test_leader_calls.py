"""Leaders that change: what is asked of them, and a whole client that goes with them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.client.producer.support.broker_parts import World, turned, world
from tests.client.support.moving_broker import moving_broker
from tests.waiting import until

from rocketpipe import Producer, PushConsumer, Session, SimpleConsumer
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.errors import ConnectionLost, NoRoute, RequestRejected
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeFromWhere
from rocketpipe.protocol.requests.transactions import EndTransaction

QUEUE = MessageQueue(topic="t", broker_name="g", queue_id=0)
ASKED = EndTransaction(
    producer_group="p",
    tran_state_table_offset=QueueOffset(1),
    commit_log_offset=LogOffset(2),
    commit_or_rollback=8,
    msg_id="m",
)


def group(here: World, leader: str | None, *followers: str) -> None:
    here.known.routes.clear()
    here.led_by("g", leader, *followers)


async def test_who_leads_by_now_is_asked_without_waiting() -> None:
    async with world("a", "b") as here, here.session() as session:
        group(here, "a", "b")
        await session.routes.get("t")
        group(here, "b", "a")
        await session.leaders.ask(QUEUE, ASKED, 1000)
        assert (len(here["a"].ended), len(here["b"].ended)) == (0, 1)
        await session.leaders.ask(QUEUE, ASKED, 1000)
        assert len(here["b"].ended) == 2


async def test_the_leader_that_is_named_is_asked_before_name_servers_know() -> None:
    async with world("a", "b") as here, here.session() as session:
        group(here, "a", "b")
        here["a"].follows = RequestRejected(14, f"not me leader={here['b'].address}")
        here["b"].follows = None
        await session.leaders.ask(QUEUE, ASKED, 1000)
        assert len(here["b"].ended) == 1


async def test_who_is_not_patient_hears_at_once_that_nobody_leads() -> None:
    async with world("a", "b") as here, here.session() as session:
        group(here, None, "a", "b")
        with pytest.raises(NoRoute, match="'g' has no leader now"):
            await session.leaders.ask(QUEUE, ASKED, 1000)
        group(here, "a", "b")
        here["a"].follows = RequestRejected(14, "starting")
        await session.routes.refresh("t")
        with pytest.raises(RequestRejected, match="starting"):
            await session.leaders.ask(QUEUE, ASKED, 1000)


async def test_who_is_patient_waits_for_a_leader_and_no_longer_than_said() -> None:
    async with world("a", "b") as here, here.session() as session:
        group(here, None, "a", "b")
        asking = asyncio.create_task(session.leaders.ask(QUEUE, ASKED, 60_000, patient=True))
        await turned(here.clock, until_asked(here, 4))
        assert not asking.done()
        group(here, "b", "a")
        await turned(here.clock, asyncio.wait_for(asking, None))
        assert len(here["b"].ended) == 1
        group(here, None, "a", "b")
        await session.routes.refresh("t")
        with pytest.raises((NoRoute, RequestRejected)):
            await turned(here.clock, session.leaders.ask(QUEUE, ASKED, 2000, patient=True))


async def test_who_is_patient_waits_for_the_leaders_replicas_too() -> None:
    async with world("a", "b") as here, here.session() as session:
        group(here, "a", "b")
        here["a"].follows = RequestRejected(1, "in-sync replicas not enough: 1 of 2")
        with pytest.raises(RequestRejected, match="not enough"):
            await session.leaders.ask(QUEUE, ASKED, 1000)
        asking = asyncio.create_task(session.leaders.ask(QUEUE, ASKED, 60_000, patient=True))
        await turned(here.clock, until_asked(here, 4))
        assert not asking.done()
        here["a"].follows = None
        await turned(here.clock, asyncio.wait_for(asking, None))
        assert len(here["a"].ended) == 1


async def test_what_has_nothing_to_do_with_leaders_is_not_asked_again() -> None:
    async with world("a", "b") as here, here.session() as session:
        group(here, "a", "b")
        here["a"].next_ends = [13]
        with pytest.raises(RequestRejected):
            await session.leaders.ask(QUEUE, ASKED, 1000, patient=True)
        assert (len(here["a"].ended), here.known.asked.count("t")) == (1, 1)


async def test_a_topic_that_nobody_knows_is_an_error_at_once() -> None:
    async with world("a") as here, here.session() as session:
        unknown = MessageQueue(topic="unknown", broker_name="g", queue_id=0)
        with pytest.raises(NoRoute, match="'unknown'"):
            await session.leaders.ask(unknown, ASKED, 1000)


async def until_asked(here: World, times: int) -> None:
    await until(lambda: len(here.known.asked) >= times)


@pytest.mark.scenario
async def test_a_client_goes_on_with_a_broker_that_moved_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    got: list[bytes] = []

    async def handle(message: ReceivedMessage) -> None:
        got.append(message.body)

    async with moving_broker(tmp_path, t=2, u=1) as moving, Session(moving.name_server) as session:
        consumer = PushConsumer(
            session, group="push", start=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, ordered=True
        )
        consumer.subscribe("t", handle)
        async with (
            Producer(session, group="p", timeout_ms=60_000) as producer,
            consumer,
            SimpleConsumer(session, group="simple") as simple,
        ):
            await producer.send("u", b"held")
            await simple.subscribe("u")
            held = await simple.receive(wait_ms=60_000)
            for number in range(3):
                await producer.send("t", b"%d" % number, order_by="one")
            await until(lambda: len(got) == 3)
            async with producer.transaction("t", b"3", order_by="one"):
                await moving.register(1, "127.0.0.1:1")  # a follower, who stays in the routes
                await moving.stop()
                # Sends that begin while nobody leads, and one that only wants any queue.
                sends = [
                    asyncio.create_task(producer.send("t", b"%d" % number, order_by="other"))
                    for number in range(4, 8)
                ]
                sends.append(asyncio.create_task(producer.send("u", b"any")))
                receiving = asyncio.create_task(simple.receive(wait_ms=60_000))
                await asyncio.sleep(0)
                await moving.start_and_lead()
            results = await asyncio.gather(*sends)
            assert len({result.message_id for result in results}) == 5
            await simple.ack(held)
            (again,) = await receiving
            assert again.body == b"any"
            await until(lambda: len(set(got)) == 8)
            assert {result.queue for result in results[:4]} == {results[0].queue}


async def test_a_broker_that_is_gone_is_an_error_when_the_time_is_up(tmp_path: Path) -> None:
    async with moving_broker(tmp_path, t=1) as moving, Session(moving.name_server) as session:
        async with Producer(session, timeout_ms=300) as producer:
            await producer.send("t", b"x")
            await moving.stop()
            with pytest.raises((ConnectionLost, NoRoute)):
                await producer.send("t", b"y")
