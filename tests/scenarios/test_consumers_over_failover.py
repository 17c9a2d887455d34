"""Consumers over a failover: what is in flight stays so, order holds, batches show once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.asking import message
from tests.broker.support.elected_group import ElectedGroup, elected_group
from tests.scenarios.support.sending_wire import all_messages
from tests.waiting import PATIENCE_S, until

from rocketpipe import ConsumeFromWhere, Producer, PushConsumer, SimpleConsumer
from rocketpipe.client.consumer.popped import PoppedMessage, popped
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.clock import SystemClock
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.requests.popping import AckMessage, PopMessage
from rocketpipe.remoting.caller import Caller

pytestmark = pytest.mark.scenario

CLOCK = SystemClock()
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
INVISIBLE_MS = 3000
LONG_MS = 600_000


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[ElectedGroup]:
    async with elected_group(tmp_path) as made:
        yield made


async def test_what_is_popped_stays_hidden_and_comes_again_once(group: ElectedGroup) -> None:
    leader = await group.three()
    async with (
        Producer(group.name_server, timeout_ms=10_000) as producer,
        SimpleConsumer(group.name_server, group="g") as consumer,
    ):
        for number in range(10):
            await producer.send("t", b"%d" % number)
        await consumer.subscribe("t")
        taken = []
        for number in range(10):
            invisible_ms = LONG_MS if number < 7 else INVISIBLE_MS
            if number == 7:
                hidden_until_ms = CLOCK.now_ms() + INVISIBLE_MS
            taken += await consumer.receive(max_messages=1, invisible_ms=invisible_ms)
        assert len({each.body for each in taken}) == 10
        await consumer.ack(taken[:4])
        leader = await group.lose(leader)
        await consumer.ack(taken[4:7])
        await producer.send("t", b"new")
        again: Counter[bytes] = Counter()
        async with asyncio.timeout(PATIENCE_S):
            while again.total() < 4:
                for each in await consumer.receive(invisible_ms=LONG_MS, wait_ms=1000):
                    assert each.body == b"new" or CLOCK.now_ms() >= hidden_until_ms
                    again[each.body] += 1
                    await consumer.ack(each)
        assert again == Counter([b"new", *(each.body for each in taken[7:])])
        await group.in_sync(1, 2, 3)
        await group.lose(leader)
        assert await consumer.receive(wait_ms=1) == []


async def test_a_queue_that_is_popped_in_order_stays_locked(group: ElectedGroup) -> None:
    leader = await group.three()
    async with Caller() as caller:

        async def pop() -> list[PoppedMessage]:
            asked = PopMessage(
                consumer_group="g",
                topic="t",
                queue_id=0,
                max_msg_nums=1,
                invisible_time=60_000,
                poll_time=0,
                born_time=CLOCK.now_ms(),
                init_mode=0,
                order=True,
            )
            reply = await caller.call(group.replicas[leader].address, asked)
            return popped(reply, "t", "broker-a") if reply.code == 0 else []

        for number in range(3):
            await caller.call(group.replicas[leader].address, message("t", b"%d" % number))
        (first,) = await pop()
        leader = await group.lose(leader)
        assert await pop() == []
        handle = first.handle
        ack = AckMessage(
            consumer_group="g",
            topic="t",
            queue_id=0,
            extra_info=str(handle),
            offset=QueueOffset(handle.queue_offset or 0),
        )
        await caller.call(group.replicas[leader].address, ack)
        await group.in_sync(1, 2, 3)
        leader = await group.lose(leader)
        (second,) = await pop()
    assert [first.body, second.body] == [b"0", b"1"]


async def test_two_ordered_consumers_never_have_one_queue_over_failovers(
    group: ElectedGroup,
) -> None:
    leader = await group.three(offset_commit="sync")
    inside: set[int] = set()
    overlaps: list[int] = []
    got: list[tuple[int, int]] = []

    async def handle(one: Any) -> None:
        if one.queue_id in inside:
            overlaps.append(one.queue_id)
        inside.add(one.queue_id)
        await asyncio.sleep(0.01)
        inside.discard(one.queue_id)
        got.append((one.queue_id, one.queue_offset))

    async with AsyncExitStack() as stack:
        producer = await stack.enter_async_context(Producer(group.name_server, timeout_ms=10_000))
        await producer.send("t", b"the topic")
        tuning = PushTuning(lock_every_ms=200, failed_pull_ms=50)
        for _ in range(2):
            consumer = PushConsumer(
                group.name_server, group="g", ordered=True, start=FIRST, tuning=tuning
            )
            consumer.on("t")(handle)
            await stack.enter_async_context(consumer)
        sent = {(0, 0)}
        for _ in range(2):
            for number in range(40):
                result = await producer.send("t", b"%d" % number)
                sent.add((result.queue.queue_id, result.queue_offset))
            leader = await group.lose(leader)
            await group.in_sync(1, 2, 3)
        await until(lambda: sent - {(0, 0)} <= set(got))
    assert overlaps == []
    for queue_id in range(4):
        reached = -1
        for queue, offset in got:
            if queue == queue_id:
                assert offset <= reached + 1, "in order"
                reached = max(reached, offset)


async def test_a_staged_batch_shows_once_whoever_leads(group: ElectedGroup) -> None:
    leader = await group.three()
    async with Producer(group.name_server, timeout_ms=10_000) as producer:

        async def put(batch: int, *, lost: str = "") -> bool | None:
            nonlocal leader
            async with producer.staged("job", batch) as staged:
                for number in range(50):
                    await staged.send("t", b"%d/%d" % (batch, number))
                if lost == "while staging":
                    leader = await group.lose(leader)
            return staged.was_committed

        async def bodies() -> Counter[bytes]:
            address = group.replicas[await group.leader()].address
            return Counter(each.body for each in await all_messages(address))

        assert await put(0) is False
        assert await put(1, lost="while staging") is False
        await group.in_sync(1, 2, 3)
        leader = await group.lose(leader)
        assert await put(1) is True, "it was committed, and is not again"
        assert await put(2) is False
        want = Counter(b"%d/%d" % (batch, each) for batch in range(3) for each in range(50))
        assert await bodies() == want
