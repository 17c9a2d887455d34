"""Consumers that pop, against a NameServer and brokers: nobody owns a queue."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from tests.scenarios.support.hurried_clock import HurriedClock
from tests.waiting import PATIENCE_S

from rocketpipe import (
    DEAD_LETTER,
    Admin,
    ConsumeFromWhere,
    Producer,
    PushConsumer,
    PushTuning,
    ReceivedMessage,
    Retry,
    Session,
    SimpleConsumer,
    blocking,
)
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.errors import ReceiptExpired, SessionClosed
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.subscription import MessageRequestMode
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.requests.clients import RequestMode, SetMessageRequestMode
from rocketpipe.protocol.requests.groups import UpdateAndCreateGroup
from rocketpipe.protocol.requests.popping import PollingInfo
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.config import StoreConfig
from rocketpipe.testing import Cluster, cluster

pytestmark = pytest.mark.scenario

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
CLOCK = HurriedClock()
LONG_MS = 600_000


async def send(name_servers: str, *bodies: bytes, topic: str = "orders", tags: str = "") -> None:
    async with Producer(name_servers) as producer:
        for body in bodies:
            await producer.send(topic, body, tags=tags or None)


@asynccontextmanager
async def brokers(root: Path, *names: str) -> AsyncIterator[str]:
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(name_server(NamesrvConfig(port=0)))
        for name in names:
            data = root / name
            config = BrokerConfig(
                data=data,
                name=name,
                name_servers=(servers,),
                port=0,
                store=StoreConfig.embedded(data),
            )
            await stack.enter_async_context(broker(config))
        yield servers


async def set_mode(servers: Cluster, group: str, share: int = 0) -> None:
    mode = RequestMode(
        topic="orders",
        consumer_group=group,
        mode=MessageRequestMode.POP,
        pop_share_queue_num=share,
    )
    async with Caller() as caller:
        settings = GroupSettings(name=group)
        await caller.call(servers.broker, UpdateAndCreateGroup(settings=settings))
        await caller.call(servers.broker, SetMessageRequestMode(mode=mode))


async def test_what_is_acknowledged_never_comes_again_and_the_rest_does(tmp_path: Path) -> None:
    async with cluster(tmp_path, clock=CLOCK) as servers:
        await send(servers.name_server, *(b"%d" % number for number in range(10)))
        async with SimpleConsumer(servers.name_server, group="g", clock=CLOCK) as consumer:
            await consumer.subscribe("orders")
            # Whose time is to be over soon is left alone; nothing is done to the rest in a hurry.
            got = await consumer.receive(max_messages=32, invisible_ms=LONG_MS)
            assert sorted(each.body for each in got) == [b"%d" % number for number in range(10)]
            await consumer.ack(got[0])
            await consumer.ack(got[1:4])
            await consumer.change_invisible(got[4], 0)
            (at_once,) = await consumer.receive(wait_ms=10_000, invisible_ms=LONG_MS)
            assert at_once.body == got[4].body
            assert at_once.reconsume_times == 1
            await consumer.ack(at_once)
            await send(servers.name_server, b"left")
            (left,) = await consumer.receive(invisible_ms=20_000)
            assert left.body == b"left"
            for each in got[6:]:
                await consumer.change_invisible(each, 20_000)
            again: Counter[bytes] = Counter()
            async with asyncio.timeout(PATIENCE_S):
                while len(again) < 5:
                    for message in await consumer.receive(wait_ms=30_000, invisible_ms=LONG_MS):
                        again[message.body] += 1
                        await consumer.ack(message)
            assert again == Counter([b"left", *(each.body for each in got[6:])])
            for each in (left, got[6]):
                with pytest.raises(ReceiptExpired, match="its time is over"):
                    await consumer.ack(each)
            assert await consumer.receive(wait_ms=1000) == []
            await consumer.ack(got[5])


async def test_topics_that_are_named_come_in_that_order(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers:
        for topic in ("low", "high", "other"):
            await send(servers.name_server, b"%s 1" % topic.encode(), topic=topic)
        async with SimpleConsumer(servers.name_server, group="g") as consumer:
            for topic in ("low", "high", "other"):
                await consumer.subscribe(topic)
            with pytest.raises(ValueError, match="'none' is not subscribed to"):
                await consumer.receive(topics=["none"])
            for expected in (b"high 1", b"low 1"):
                (got,) = await consumer.receive(max_messages=1, topics=["high", "low"])
                assert got.body == expected
            waiting = asyncio.create_task(consumer.receive(topics=["high", "low"]))
            await asyncio.sleep(0)
            await send(servers.name_server, b"low 2", topic="low")
            (got,) = await waiting
            assert got.body == b"low 2"
            (left,) = await consumer.receive(max_messages=1)
            assert left.body == b"other 1"


async def test_a_receive_waits_and_tags_and_expressions_choose(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers:
        await send(servers.name_server, b"a", tags="A")
        await send(servers.name_server, b"b", tags="B")
        async with AsyncExitStack() as stack:
            tagged, sql = [
                await stack.enter_async_context(SimpleConsumer(servers.name_server, group=group))
                for group in ("tags", "sql")
            ]
            await tagged.subscribe("orders", tags="B")
            await sql.subscribe("orders", sql="TAGS = 'A'")
            assert [each.body for each in await tagged.receive()] == [b"b"]
            assert [each.body for each in await sql.receive()] == [b"a"]
            waiting = asyncio.create_task(tagged.receive(wait_ms=20_000))
            await asyncio.sleep(0)
            await send(servers.name_server, b"no", tags="A")
            await send(servers.name_server, b"yes", tags="B")
            assert [each.body for each in await waiting] == [b"yes"]


async def test_one_receives_from_whichever_broker_has_something(tmp_path: Path) -> None:
    async with brokers(tmp_path, "broker-a", "broker-b") as servers:
        async with Admin(servers) as admin:
            await admin.topics.create("orders", queues=2)
        await send(servers, *(b"%d" % number for number in range(16)))
        async with SimpleConsumer(servers, group="g") as consumer:
            await consumer.subscribe("orders")
            seen: Counter[bytes] = Counter()
            where = set()
            async with asyncio.timeout(PATIENCE_S):
                while len(seen) < 16:
                    for message in await consumer.receive(max_messages=5):
                        seen[message.body] += 1
                        where.add(message.queue.broker_name)
                        await consumer.ack(message)
            assert where == {"broker-a", "broker-b"}
            waiting = asyncio.create_task(consumer.receive(wait_ms=20_000))
            await asyncio.sleep(0)
            await send(servers, b"late")
            assert [each.body for each in await waiting] == [b"late"]
    assert max(seen.values()) == 1


@pytest.mark.parametrize("share", [None, 0, 1], ids=["pop", "as set", "as set, shared"])
async def test_more_consumers_than_queues_share_the_work(tmp_path: Path, share: int | None) -> None:
    async with cluster(tmp_path) as servers, AsyncExitStack() as stack:
        await send(servers.name_server, b"first")
        if share is not None:
            await set_mode(servers, "g", share)
        seen: Counter[bytes] = Counter()
        who: set[int] = set()
        everyone = asyncio.Event()
        for number in range(6):
            session = Session(servers.name_server, instance=f"c{number}")
            consumer = PushConsumer(
                session,
                group="g",
                pop=True if share is None else None,
                start=FIRST,
                concurrency=2,
                # Nobody may hold so many that there are none for the last to come.
                tuning=PushTuning(pop_count=2, pop_in_hand=2),
            )

            @consumer.on("orders")
            async def consume(message: ReceivedMessage, number: int = number) -> None:
                seen[message.body] += 1
                who.add(number)
                if len(who) == 6 or share == 1:
                    everyone.set()
                async with asyncio.timeout(PATIENCE_S):
                    await everyone.wait()

            await stack.enter_async_context(session)
            await stack.enter_async_context(consumer)
        bodies = [b"%d" % number for number in range(40)]
        await send(servers.name_server, *bodies)
        async with asyncio.timeout(PATIENCE_S):
            while len(seen) < 41:  # noqa: ASYNC110 - handlers tell
                await asyncio.sleep(0.01)
    assert share == 1 or who == set(range(6))
    assert max(seen.values()) == 1


async def test_what_a_handler_could_not_use_comes_again_and_becomes_a_dead_letter(
    tmp_path: Path,
) -> None:
    clock: Clock = CLOCK
    async with cluster(tmp_path, clock=clock) as servers:
        await send(servers.name_server, b"good", b"bad", b"hopeless")
        tries: dict[bytes, list[int]] = {}
        consumer = PushConsumer(servers.name_server, group="g", pop=True, start=FIRST, clock=clock)

        @consumer.on("orders")
        async def consume(message: ReceivedMessage) -> object:
            tries.setdefault(message.body, []).append(message.reconsume_times)
            if message.body == b"hopeless":
                return Retry(delay_level=DEAD_LETTER)
            if message.body == b"bad" and len(tries[b"bad"]) < 3:
                return Retry(delay_level=1)
            return None

        async with consumer, asyncio.timeout(PATIENCE_S):
            while len(tries.get(b"bad", ())) < 3:  # noqa: ASYNC110 - the broker shows it again
                await asyncio.sleep(0.01)
            async with SimpleConsumer(servers.name_server, group="dead", clock=clock) as dead:
                await dead.subscribe("%DLQ%g")
                (letter,) = await dead.receive()
        assert letter.body == b"hopeless"
        assert tries == {b"good": [0], b"bad": [0, 1, 2], b"hopeless": [0]}


async def test_a_simple_consumer_in_order_gets_more_of_a_queue_when_it_is_done(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        for body in (b"1", b"2", b"3"):
            await producer.send("orders", body, order_by="one")
        async with SimpleConsumer(servers.name_server, group="g", ordered=True) as consumer:
            await consumer.subscribe("orders")
            (first,) = await consumer.receive(max_messages=1)
            assert await consumer.receive(wait_ms=0) == []
            await consumer.change_invisible(first, 0)
            (again,) = await consumer.receive(max_messages=1)
            assert again.body == first.body == b"1"
            waiting = asyncio.create_task(consumer.receive(max_messages=2))
            await consumer.ack(again)
            assert [each.body for each in await waiting] == [b"2", b"3"]


async def test_of_topics_by_rank_a_later_one_waits_for_an_earlier_one(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers:
        ranks = ("urgent", "usual", "idle")
        async with SimpleConsumer(servers.name_server, group="g") as consumer:
            for topic in reversed(ranks):
                for body in (b"1", b"2"):
                    await send(servers.name_server, topic.encode() + body, topic=topic)
                await consumer.subscribe(topic)
            got = [await consumer.receive(max_messages=2, topics=ranks) for _ in ranks]
            assert [{each.topic for each in some} for some in got] == [{each} for each in ranks]
            waiting = asyncio.create_task(consumer.receive(topics=ranks[1:]))
            await send(servers.name_server, b"not asked for", topic="urgent")
            await send(servers.name_server, b"3", topic="idle")
            assert [each.body for each in await waiting] == [b"3"]
            with pytest.raises(ValueError, match="'orders' is not subscribed to"):
                await consumer.receive(topics=["orders"])


async def test_in_order_a_message_that_failed_holds_up_its_queue(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers:
        bodies = [b"%d" % number for number in range(8)]
        async with Producer(servers.name_server) as producer:
            for body in bodies:
                await producer.send("orders", body, order_by="one")
        seen: list[bytes] = []
        done = asyncio.Event()
        consumer = PushConsumer(
            servers.name_server,
            group="g",
            pop=True,
            ordered=True,
            start=FIRST,
            tuning=PushTuning(suspend_queue_ms=20),
        )

        @consumer.on("orders")
        async def consume(message: ReceivedMessage) -> object:
            seen.append(message.body)
            if message.body == b"3" and message.reconsume_times < 2:
                return False
            if message.body == b"7":
                done.set()
            return None

        async with consumer, asyncio.timeout(PATIENCE_S):
            await done.wait()
    assert seen == [b"0", b"1", b"2", b"3", b"3", b"3", b"4", b"5", b"6", b"7"]


async def test_the_blocking_consumer_does_the_same(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers:
        await send(servers.name_server, b"1")

        def receive() -> list[bytes]:
            with blocking.SimpleConsumer(servers.name_server, group="g") as consumer:
                consumer.subscribe("orders")
                (message,) = consumer.receive()
                consumer.change_invisible(message, 30_000)
                consumer.ack(message)
                assert consumer.receive(wait_ms=1) == []
                return [message.body]

        assert await asyncio.to_thread(receive) == [b"1"]


class OtherClock(SystemClock):
    """A machine's clock that was set wrong."""

    def __init__(self, ahead_ms: int) -> None:
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms


@pytest.mark.parametrize("ahead_ms", [-3_600_000, -61_000, 61_000, 3_600_000])
async def test_a_consumer_whose_clock_is_wrong_gets_its_messages(
    tmp_path: Path, ahead_ms: int
) -> None:
    async with cluster(tmp_path) as servers:
        await send(servers.name_server, b"1", b"2")
        handled = asyncio.Queue[bytes]()
        clock = OtherClock(ahead_ms)
        tuning = PushTuning(pop_invisible_ms=60_000)
        consumer = PushConsumer(
            servers.name_server, group="g", pop=True, start=FIRST, tuning=tuning, clock=clock
        )

        @consumer.on("orders")
        async def handle(message: ReceivedMessage) -> None:
            handled.put_nowait(message.body)

        async with asyncio.timeout(PATIENCE_S), consumer:
            assert {await handled.get(), await handled.get()} == {b"1", b"2"}
            await send(servers.name_server, b"3")  # for a pop that waits
            assert await handled.get() == b"3"


async def test_a_topic_may_be_subscribed_to_before_it_is_there(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path) as servers,
        SimpleConsumer(servers.name_server, group="g", start="last") as consumer,
        asyncio.timeout(PATIENCE_S),
    ):
        await consumer.subscribe("orders")
        assert await consumer.receive(wait_ms=0) == []
        waiting = asyncio.create_task(consumer.receive())
        await send(servers.name_server, b"first")
        (message,) = await waiting
        assert message.body == b"first"


# Questions that nobody waits for any more


@asynccontextmanager
async def asking(root: Path) -> AsyncIterator[tuple[Session, SimpleConsumer, SimpleConsumer]]:
    """Two consumers, and a client of which the first is a part."""
    async with (
        brokers(root, "broker-a") as servers,
        Session(servers) as session,
        Admin(session) as admin,
        SimpleConsumer(session, group="left") as one,
        SimpleConsumer(servers, group="left") as other,
    ):
        await admin.topics.create("orders")
        for consumer in (one, other):
            await consumer.subscribe("orders")
        yield session, one, other


async def waits(consumer: SimpleConsumer, wait_ms: int = 20_000) -> asyncio.Task[list[bytes]]:
    """Have a consumer ask; its question waits at the broker."""

    async def receive() -> list[bytes]:
        found = await consumer.receive(invisible_ms=LONG_MS, wait_ms=wait_ms)
        return [bytes(each.body) for each in found]

    before = await waiting(consumer)
    task = asyncio.create_task(receive())
    async with asyncio.timeout(PATIENCE_S):
        while await waiting(consumer) == before:  # a question to the broker, each time
            pass
    return task


async def waiting(consumer: SimpleConsumer) -> int:
    """How many questions of a group wait at its broker."""
    route = await consumer.session.routes.get("orders")
    asked = PollingInfo(consumer_group=consumer.group, topic="orders", queue_id=-1)
    async with Caller() as caller:
        reply = await caller.call(route.brokers[0].addresses[0], asked)
    return reply.polling_num


async def test_a_message_is_not_hidden_for_one_who_was_cancelled(tmp_path: Path) -> None:
    async with asking(tmp_path) as (session, one, other):
        left = await waits(one)
        left.cancel()
        with pytest.raises(asyncio.CancelledError):
            await left
        taken = await waits(other)
        async with Producer(session) as producer:
            await producer.send("orders", b"for whoever waits")
        async with asyncio.timeout(PATIENCE_S):
            assert await taken == [b"for whoever waits"]


async def test_a_message_is_not_hidden_for_one_who_left(tmp_path: Path) -> None:
    async with asking(tmp_path) as (session, one, other):
        left = await waits(one)
        await one.close()
        with pytest.raises(SessionClosed):
            await left
        assert await waiting(other) == 0
        taken = await waits(other)
        async with Producer(session) as producer:
            await producer.send("orders", b"for who is there")
        async with asyncio.timeout(PATIENCE_S):
            assert await taken == [b"for who is there"]
