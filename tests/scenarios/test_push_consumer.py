"""Push consumers against real servers: what they are given, what comes again, who takes over."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.support.consuming import (
    Gone,
    Got,
    History,
    Share,
    anomalies,
    create_topic,
    quick_servers,
    until_topic,
)
from tests.scenarios.support.members import both_servers
from tests.waiting import until

from rocketpipe import (
    Admin,
    ConsumeFromWhere,
    MessageQueue,
    Producer,
    PushConsumer,
    RocketPipeError,
    Session,
)
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.client.consumer.group.offsets import offsets_path
from rocketpipe.client.consumer.outcome import DEAD_LETTER, Retry
from rocketpipe.errors import OffsetsTaken
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.store.config import StoreConfig

pytestmark = pytest.mark.scenario

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
#: Every retry after a second: the first is at the third level.
SHORT = "1s 1s 1s 1s 1s 1s"


async def send(producer: Producer, topic: str, bodies: list[bytes]) -> None:
    await asyncio.gather(*(producer.send(topic, body) for body in bodies))


def numbered(word: str, count: int) -> list[bytes]:
    return [b"%s %d" % (word.encode(), number) for number in range(count)]


async def test_tags_sql_and_batches_choose_what_each_handler_gets(tmp_path: Path) -> None:
    async with both_servers(tmp_path) as servers, Producer(servers.name_server) as producer:
        for topic in ("tagged", "priced", "batched"):
            await create_topic(servers.broker, topic, 2)
        for tag in ("paid", "refunded", "open"):
            await producer.send("tagged", tag.encode(), tags=tag)
        for price in (5, 15, 25):
            await producer.send("priced", b"%d" % price, properties={"price": str(price)})
        await send(producer, "batched", numbered("b", 20))
        consumer = PushConsumer(servers.name_server, group="g", start=FIRST)
        tagged, priced, batched = set(), set(), []

        @consumer.on("tagged", tags="paid || refunded")
        async def by_tag(message: Any) -> None:
            tagged.add((message.tags, message.body))

        @consumer.on("priced", sql="price > 10")
        def by_price(message: Any) -> None:
            assert threading.current_thread() is not threading.main_thread()
            priced.add(message.body)

        @consumer.on("batched", batch=8)
        class Batches:
            def handle(self, messages: list[Any]) -> None:
                batched.append([message.body for message in messages])

        async with consumer:
            await until(
                lambda: len(tagged) == 2 and len(priced) == 2 and sum(map(len, batched)) == 20
            )
        assert tagged == {("paid", b"paid"), ("refunded", b"refunded")}
        assert priced == {b"15", b"25"}
        assert sorted(body for some in batched for body in some) == sorted(numbered("b", 20))
        assert max(map(len, batched)) <= 8


async def test_what_fails_comes_again_and_ends_with_the_dead_letters(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    attempts: Counter[bytes] = Counter()
    times: list[int] = []
    async with (
        quick_servers(tmp_path, delay_levels=SHORT) as servers,
        Producer(servers.name_server) as producer,
    ):
        await create_topic(servers.broker, "orders", 1)
        await send(producer, "orders", [b"good", b"bad", b"once", b"hopeless"])
        async with Admin(servers.name_server) as admin:
            await admin.groups.create("g", max_attempts=3)
        consumer = PushConsumer(servers.name_server, group="g", start=FIRST)

        @consumer.on("orders")
        async def handle(message: Any) -> Any:
            attempts[message.body] += 1
            assert message.topic == "orders"
            if message.body == b"bad":
                times.append(message.reconsume_times)
                raise ValueError("always")
            if message.body == b"once" and attempts[b"once"] == 1:
                return Retry(delay_level=1)
            if message.body == b"hopeless":
                return Retry(delay_level=DEAD_LETTER)
            return None

        dead: dict[bytes, dict[str, str]] = {}
        undertaker = PushConsumer(servers.name_server, group="undertaker", start=FIRST)

        @undertaker.on("%DLQ%g")
        async def bury(message: Any) -> None:
            dead[message.body] = dict(message.properties)

        async with consumer:
            await until(lambda: attempts == {b"good": 1, b"bad": 3, b"once": 2, b"hopeless": 1})
            await until_topic(servers.name_server, "%DLQ%g")
            async with undertaker:
                await until(lambda: set(dead) == {b"bad", b"hopeless"})
        assert times == [0, 1, 2]
        failures = [line for line in caplog.messages if "ValueError: always" in line]
        follows = [line.partition("next=")[2].partition(" reason=")[0] for line in failures]
        assert follows == ["again later", "again later", "to the dead letters"]
        assert dead[b"bad"]["RETRY_TOPIC"] == "orders"
        assert attempts == {b"good": 1, b"bad": 3, b"once": 2, b"hopeless": 1}


async def test_broadcast_members_of_one_machine_do_not_take_each_others_place(
    tmp_path: Path,
) -> None:
    got: dict[str, set[bytes]] = {"a": set(), "b": set()}
    async with (
        both_servers(tmp_path / "data") as servers,
        Producer(servers.name_server) as producer,
    ):
        await create_topic(servers.broker, "news", 1)

        def member(name: str, session: str | Session = servers.name_server) -> PushConsumer:
            made = PushConsumer(
                session,
                group="readers",
                broadcast=True,
                start=FIRST,
                offsets_root=tmp_path / "offsets",
            )
            made.subscribe("news", lambda message: got[name].add(message.body))
            return made

        await producer.send("news", b"1")
        async with member("b"):
            with pytest.raises(OffsetsTaken, match="instance="):
                await member("a").__aenter__()
            async with member("a", Session(servers.name_server, instance="a")):
                await until(lambda: got["a"] == got["b"] == {b"1"})
            await producer.send("news", b"2")
            await until(lambda: got["b"] == {b"1", b"2"})
        async with member("a", Session(servers.name_server, instance="a")):
            await until(lambda: got["a"] == {b"1", b"2"})


async def test_more_members_than_queues_leave_some_idle(tmp_path: Path) -> None:
    async with both_servers(tmp_path) as servers, AsyncExitStack() as group:
        await create_topic(servers.broker, "orders", 3)
        members = [PushConsumer(servers.name_server, group="g", start=FIRST) for _ in range(5)]
        for member in members:
            member.subscribe("orders", lambda message: None)
            await group.enter_async_context(member)

        def shares() -> list[int]:
            return sorted(
                sum(queue.topic == "orders" for queue in member.queues) for member in members
            )

        await until(lambda: shares() == [0, 0, 1, 1, 1])


async def test_every_broadcast_member_gets_everything_and_goes_on_where_it_was(
    tmp_path: Path,
) -> None:
    root = tmp_path / "offsets"
    got: dict[str, list[bytes]] = {"one": [], "two": []}
    async with both_servers(tmp_path / "data") as servers:
        await create_topic(servers.broker, "news", 2)

        @asynccontextmanager
        async def member(name: str) -> AsyncIterator[Session]:
            session = Session(servers.name_server, instance=name)
            consumer = PushConsumer(
                session, group="g", broadcast=True, start=FIRST, offsets_root=root
            )

            @consumer.on("news")
            async def note(message: Any) -> None:
                got[name].append(message.body)

            async with consumer:
                yield session

        first, second = numbered("first", 10), numbered("second", 10)
        async with Producer(servers.name_server) as producer:
            async with member("one") as session, member("two"):
                await send(producer, "news", first)
                await until(lambda: all(len(bodies) == 10 for bodies in got.values()))
            assert offsets_path(session.client_id, "g", root).exists()
            await send(producer, "news", second)
        async with member("one"):
            await until(lambda: len(got["one"]) == 20)
        assert sorted(got["one"]) == sorted(first + second)
        assert sorted(got["two"]) == sorted(first)


# A storm.


async def test_a_storm_of_members_loses_nothing_and_repeats_nothing_without_a_cause(
    tmp_path: Path,
) -> None:
    chance = random.Random(20)
    history = History()
    sent = numbered("m", 600)
    async with both_servers(tmp_path) as servers, AsyncExitStack() as stack:
        await create_topic(servers.broker, "storm", 8)
        alive: dict[str, PushConsumer] = {}

        async def join(name: str) -> None:
            consumer = PushConsumer(
                servers.name_server,
                group="g",
                start=FIRST,
                strategy=history.strategy(name),
                concurrency=2,
            )

            @consumer.on("storm")
            async def note(message: Any) -> None:
                history.got(name, message.queue, message.body)
                # Slower than the producer, so that queues change hands with messages in hand.
                await asyncio.sleep(0.01)

            alive[name] = await stack.enter_async_context(consumer)

        async def leave(name: str) -> None:
            await alive.pop(name).close()
            history.gone(name)

        async with Producer(servers.name_server) as producer:
            names = [f"member {number}" for number in range(20)]
            await asyncio.gather(*(join(name) for name in names[:4]))
            waiting = names[4:]
            for at in range(0, len(sent), 30):
                await send(producer, "storm", sent[at : at + 30])
                moves = []
                if waiting:
                    moves.append(join(waiting.pop()))
                if len(alive) > 3 and chance.random() < 0.6:
                    moves.append(leave(chance.choice(sorted(alive))))
                await asyncio.gather(*moves)
            assert not waiting, "all twenty took part"
            while len(alive) > 2:
                await leave(sorted(alive)[0])
            await until(lambda: history.bodies == set(sent))
        for name in sorted(alive):
            await leave(name)
    assert anomalies(history, sent) == []


QUEUE = MessageQueue(topic="t", broker_name="broker-a", queue_id=0)


def test_the_checker_finds_what_was_planted() -> None:
    ours, nothing = frozenset({QUEUE}), frozenset[MessageQueue]()

    def checked(*events: Any, sent: tuple[bytes, ...] = (b"1",)) -> list[str]:
        history = History()
        for event in events:
            history.events.append(event)
            if isinstance(event, Got):
                history.bodies.add(event.body)
        return anomalies(history, sent)

    a, b = Got("a", QUEUE, b"1"), Got("b", QUEUE, b"1")
    fine = [Share("a", ours), a]
    assert checked(*fine) == []
    assert checked(Share("a", ours)) == ["lost b'1'"]
    assert checked(*fine, sent=()) == ["never sent b'1'"]
    assert checked(*fine, a) == ["b'1' came twice to a without a cause"]
    assert checked(*fine, Share("a", nothing), Share("a", ours), a) == []
    assert checked(*fine, Gone("a"), a) == []
    assert checked(*fine, Share("b", ours), b) == []
    assert checked(*fine, b) == ["b'1' came to b, who never had its queue"]


# Somebody dies.

CHILD = """
import asyncio, sys
from rocketpipe import ConsumeFromWhere, PushConsumer
from rocketpipe.client.consumer.tuning import PushTuning

async def main():
    consumer = PushConsumer(
        sys.argv[1],
        group="g",
        start=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        concurrency=1,
        tuning=PushTuning(persist_every_ms=20),
    )

    @consumer.on("orders")
    async def handle(message):
        print(message.body.decode(), flush=True)
        await asyncio.sleep(0.01)

    async with consumer:
        await consumer.closed()

asyncio.run(main())
"""


async def test_when_a_member_is_killed_another_takes_over_what_it_had(tmp_path: Path) -> None:
    sent = numbered("m", 200)
    async with both_servers(tmp_path) as servers, Producer(servers.name_server) as producer:
        await create_topic(servers.broker, "orders", 2)
        await send(producer, "orders", sent)
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CHILD, servers.name_server, stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        handled = [(await child.stdout.readline()).strip() for _ in range(20)]
        child.send_signal(signal.SIGKILL)
        handled += [line.strip() for line in (await child.stdout.read()).splitlines()]
        await child.wait()
        got: list[bytes] = []
        consumer = PushConsumer(servers.name_server, group="g", start=FIRST)
        consumer.subscribe("orders", lambda message: got.append(message.body))
        async with consumer:
            await until(lambda: set(got) | set(handled) == set(sent))
        assert Counter(got).most_common(1)[0][1] == 1, "nothing twice by one that lives"


async def test_without_a_name_server_consuming_goes_on_and_with_it_others_may_join(
    tmp_path: Path, lasting_port: int
) -> None:
    got: set[bytes] = set()
    address = f"127.0.0.1:{lasting_port}"
    config = BrokerConfig(
        data=tmp_path,
        name_servers=(address,),
        port=0,
        store=StoreConfig.embedded(tmp_path),
        register_every_ms=1000,
    )

    def member() -> PushConsumer:
        consumer = PushConsumer(address, group="g", start=FIRST)
        consumer.subscribe("orders", lambda message: got.add(message.body))
        return consumer

    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(AsyncExitStack())
        await names.enter_async_context(name_server(NamesrvConfig(port=lasting_port)))
        at = await stack.enter_async_context(broker(config))
        await create_topic(at, "orders", 2)
        producer = await stack.enter_async_context(Producer(address))
        first = await stack.enter_async_context(member())
        await send(producer, "orders", [b"before"])
        await until(lambda: b"before" in got)
        await names.aclose()
        await send(producer, "orders", [b"without 1", b"without 2"])
        await until(lambda: {b"without 1", b"without 2"} <= got)
        await stack.enter_async_context(name_server(NamesrvConfig(port=lasting_port)))
        await until_topic(address, "orders")
        second = await stack.enter_async_context(member())
        await until(lambda: any(queue.topic == "orders" for queue in second.queues))
        await until(lambda: not first.queues & second.queues)
        await send(producer, "orders", numbered("after", 10))
        await until(lambda: set(numbered("after", 10)) <= got)


async def test_a_broker_that_is_started_again_finds_its_consumers_where_they_were(
    tmp_path: Path, lasting_port: int
) -> None:
    got: list[bytes] = []
    async with name_server(NamesrvConfig(port=0)) as names:
        config = BrokerConfig(
            data=tmp_path,
            name_servers=(names,),
            port=lasting_port,
            store=StoreConfig.embedded(tmp_path),
            register_every_ms=1000,
        )
        consumer = PushConsumer(names, group="g", start=FIRST)
        consumer.subscribe("orders", lambda message: got.append(message.body))
        async with Producer(names) as producer:
            async with broker(config) as address:
                await create_topic(address, "orders", 2)
                await send(producer, "orders", numbered("before", 5))
                await consumer.__aenter__()
                await until(lambda: len(got) == 5)
            async with broker(config):
                await until_sent(producer, "orders", numbered("after", 5))
                await until(lambda: set(numbered("after", 5)) <= set(got))
                await consumer.close()
        assert set(got) == set(numbered("before", 5) + numbered("after", 5))


async def until_sent(producer: Producer, topic: str, bodies: list[bytes]) -> None:
    async with asyncio.timeout(60):
        for body in bodies:
            while True:
                try:
                    await producer.send(topic, body)
                    break
                except RocketPipeError:
                    await asyncio.sleep(0.01)
