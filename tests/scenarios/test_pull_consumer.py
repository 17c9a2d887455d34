"""Pull consumers of one group, against a NameServer and a broker."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from rocketpipe import Producer, PullConsumer
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.client.consumer.group.assignment import consistent_hash
from rocketpipe.client.session import Session
from rocketpipe.clock import SystemClock
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeFromWhere
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.store.config import StoreConfig
from rocketpipe.testing import cluster
from rocketpipe.testing.clock import ManualClock

pytestmark = pytest.mark.scenario

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


async def send(name_servers: str, numbers: Sequence[int], topic: str = "orders") -> None:
    async with Producer(name_servers) as producer:
        for number in numbers:
            await producer.send(topic, b"%d" % number)


async def settled(consumers: Sequence[PullConsumer], queues: int) -> None:
    """Wait until the consumers have all the queues, and none of them twice."""
    async with asyncio.timeout(PATIENCE_S):
        while not _is_partition([each.queues for each in consumers], queues):  # noqa: ASYNC110 - a broker tells them
            await asyncio.sleep(0.01)


def _is_partition(shares: Sequence[frozenset[MessageQueue]], queues: int) -> bool:
    union = frozenset().union(*shares)
    return len(union) == sum(map(len, shares)) == queues


async def drained(consumers: Sequence[PullConsumer], seen: Counter[int], wanted: int) -> None:
    """Poll them in turn until so many different messages were seen."""
    async with asyncio.timeout(PATIENCE_S):
        while len(seen) < wanted:
            for consumer in consumers:
                seen.update(int(message.body) for message in await consumer.poll(timeout_ms=5))


async def test_members_share_the_queues_and_take_over_from_one_that_leaves(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as servers:
        await send(servers.name_server, range(40))
        seen: Counter[int] = Counter()
        async with PullConsumer(servers.name_server, group="g", start=FIRST) as one:
            await one.subscribe("orders")
            assert len(one.queues) == 4
            async with PullConsumer(servers.name_server, group="g", start=FIRST) as two:
                await two.subscribe("orders")
                await settled([one, two], 4)
                assert len(one.queues) == len(two.queues) == 2
                await drained([one, two], seen, 40)
                await send(servers.name_server, range(40, 80))
                await drained([one, two], seen, 80)
            await settled([one], 4)
            await send(servers.name_server, range(80, 100))
            await drained([one], seen, 100)
        assert set(seen) == set(range(100))
        # What the leaving member had was committed, so nothing of it came again.
        assert set(seen.values()) == {1}


async def test_members_that_come_and_go_lose_nothing(tmp_path: Path) -> None:
    chance = random.Random(6)
    async with cluster(tmp_path) as servers, AsyncExitStack() as stack:
        names = servers.name_server
        await send(names, range(1))
        seen: Counter[int] = Counter()
        here: list[tuple[PullConsumer, AsyncExitStack]] = []
        sent = 1
        for _ in range(12):
            if len(here) < 2 or (len(here) < 5 and chance.random() < 0.6):
                own = await stack.enter_async_context(AsyncExitStack())
                consumer = PullConsumer(names, group="g", start=FIRST, strategy=consistent_hash())
                await own.enter_async_context(consumer)
                await consumer.subscribe("orders")
                here.append((consumer, own))
            else:
                _, own = here.pop(chance.randrange(len(here)))
                await own.aclose()
            await send(names, range(sent, sent + 8))
            sent += 8
            for consumer, _ in here:
                seen.update(int(each.body) for each in await consumer.poll(timeout_ms=1))
        await drained([consumer for consumer, _ in here], seen, sent)
        await settled([consumer for consumer, _ in here], 4)
        assert set(seen) == set(range(sent))


async def test_who_crashed_is_followed_by_the_others(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers:
        await send(servers.name_server, range(40))
        # Its clock stands still, so that it does not come back to life.
        lost = Session(servers.name_server, clock=ManualClock())
        crashing = PullConsumer(lost, group="g", start=FIRST)
        await crashing.__aenter__()
        try:
            await crashing.subscribe("orders")
            assert await crashing.poll()
            async with PullConsumer(servers.name_server, group="g", start=FIRST) as left:
                await left.subscribe("orders")
                assert len(left.queues) == 2
                # Its connections break, and it says nothing: the broker notices, and tells.
                await lost.caller.__aexit__(None, None, None)
                await settled([left], 4)
                seen: Counter[int] = Counter()
                await drained([left], seen, 40)
                assert set(seen) == set(range(40)), "the lost one had committed nothing"
        finally:
            await crashing.__aexit__(RuntimeError, RuntimeError(), None)


@asynccontextmanager
async def broker_on(data: Path, names: str, port: int = 0) -> AsyncIterator[str]:
    store = StoreConfig.embedded(data)
    config = BrokerConfig(data=data, name_servers=(names,), port=port, store=store)
    async with broker(config) as address:
        yield address


async def test_a_broker_that_is_started_again_is_read_on(tmp_path: Path) -> None:
    async with name_server(NamesrvConfig(port=0)) as names, AsyncExitStack() as first:
        address = await first.enter_async_context(broker_on(tmp_path, names))
        await send(names, range(20))
        seen: Counter[int] = Counter()
        async with PullConsumer(names, group="g", start=FIRST) as consumer:
            await consumer.subscribe("orders")
            await drained([consumer], seen, 20)
            await first.aclose()
            assert await consumer.poll(timeout_ms=1) == []
            async with broker_on(tmp_path, names, int(address.rpartition(":")[2])):
                await send(names, range(20, 40))
                await drained([consumer], seen, 40)
        assert set(seen) == set(range(40))


async def test_an_old_topic_is_begun_at_its_end_its_start_or_a_moment(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        names = servers.name_server
        await send(names, range(12))
        async with PullConsumer(names, group="reader") as consumer:
            queues = await consumer.queues_of("orders")
            await consumer.assign(queues)
            await consumer.seek_to_end()
            await producer.send("orders", b"100")
            seen: Counter[int] = Counter()
            await drained([consumer], seen, 1)
            assert seen == {100: 1}
            await consumer.seek_to_begin()
            seen.clear()
            await drained([consumer], seen, 13)
            ends = consumer.positions()
            assert sum(ends.values()) == 13
            await consumer.commit()
            assert [await consumer.committed(queue) for queue in queues] == [
                ends[queue] for queue in queues
            ]
        hour_ms, now_ms = 3_600_000, SystemClock().now_ms()
        for at_ms, places in (
            (now_ms - hour_ms, dict.fromkeys(queues, 0)),
            (now_ms + hour_ms, ends),
        ):
            async with PullConsumer(names, group="reader") as consumer:
                await consumer.assign(queues)
                assert consumer.positions() == ends, "the group goes on where it stopped"
                await consumer.seek_to_time(at_ms)
                assert consumer.positions() == places
                await consumer.seek_to_end()


async def test_every_member_of_a_broadcast_group_reads_everything(tmp_path: Path) -> None:
    async with cluster(tmp_path / "data") as servers:
        await send(servers.name_server, range(12))
        members = [
            PullConsumer(
                servers.name_server,
                group="g",
                broadcast=True,
                start=FIRST,
                offsets_root=tmp_path / str(number),
            )
            for number in range(2)
        ]
        async with members[0], members[1]:
            for member in members:
                await member.subscribe("orders")
            for member in members:
                seen: Counter[int] = Counter()
                await drained([member], seen, 12)
                assert seen == dict.fromkeys(range(12), 1)
