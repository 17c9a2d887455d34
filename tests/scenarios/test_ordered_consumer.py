"""Ordered consumers against real servers: one handler of a queue at a time, whoever has it."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.support.consuming import PATIENCE_S, create_topic, quick_servers, until_topic
from tests.scenarios.support.members import both_servers
from tests.waiting import until

from rocketpipe import Admin, ConsumeFromWhere, MessageQueue, Producer, PushConsumer
from rocketpipe.client.consumer.group.assignment import configured
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.protocol.requests.offsets import QueryConsumerOffset
from rocketpipe.remoting.caller import Caller
from rocketpipe.testing.clock import ManualClock

pytestmark = pytest.mark.scenario

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
QUEUE = MessageQueue(topic="orders", broker_name="broker-a", queue_id=0)


class Ledger:
    """Who is inside which queue, written by the handlers of all members."""

    def __init__(self) -> None:
        self.inside: dict[MessageQueue, str] = {}
        self.overlaps: list[str] = []
        self.done: defaultdict[MessageQueue, list[int]] = defaultdict(list)

    def enter(self, member: str, message: Any) -> None:
        other = self.inside.get(message.queue)
        if other is not None:
            self.overlaps.append(f"{member} entered {message!r} while {other} was inside")
        self.inside[message.queue] = member

    def leave(self, message: Any) -> None:
        del self.inside[message.queue]
        self.done[message.queue].append(message.queue_offset)

    def skipped(self) -> list[str]:
        """Where a queue went on without what comes before; going back is a redelivery."""
        found = []
        for queue, offsets in self.done.items():
            reached = -1
            for offset in offsets:
                if offset > reached + 1:
                    found.append(f"{queue} went from {reached} to {offset}")
                reached = max(reached, offset)
        return found


def test_the_ledger_finds_what_was_planted() -> None:
    class Planted:
        def __init__(self, offset: int) -> None:
            self.queue, self.queue_offset = QUEUE, offset

    ledger = Ledger()
    ledger.enter("a", Planted(0))
    ledger.enter("b", Planted(0))
    assert len(ledger.overlaps) == 1
    ledger.leave(Planted(0))
    ledger.enter("b", Planted(2))
    ledger.leave(Planted(2))
    assert len(ledger.skipped()) == 1


async def test_messages_of_one_key_are_consumed_in_the_order_they_were_sent(
    tmp_path: Path,
) -> None:
    got: list[bytes] = []
    async with both_servers(tmp_path) as servers, Producer(servers.name_server) as producer:
        await create_topic(servers.broker, "orders", 4)
        for word in ("A1", "B1", "A2", "A3", "B2", "B3"):
            await producer.send("orders", word.encode(), order_by=word[0])
        consumer = PushConsumer(servers.name_server, group="g", ordered=True, start=FIRST)

        @consumer.on("orders")
        async def handle(message: Any) -> None:
            got.append(message.body)

        async with consumer:
            await until(lambda: len(got) == 6)
    assert [word for word in got if word.startswith(b"A")] == [b"A1", b"A2", b"A3"]
    assert [word for word in got if word.startswith(b"B")] == [b"B1", b"B2", b"B3"]


async def test_no_two_handlers_of_one_queue_overlap_while_members_come_and_go(
    tmp_path: Path,
) -> None:
    chance = random.Random(6)
    ledger = Ledger()
    sent = 240
    async with both_servers(tmp_path) as servers, AsyncExitStack() as stack:
        await create_topic(servers.broker, "orders", 4)
        alive: dict[str, PushConsumer] = {}

        async def join(name: str) -> None:
            consumer = PushConsumer(servers.name_server, group="g", ordered=True, start=FIRST)

            @consumer.on("orders")
            async def handle(message: Any) -> None:
                ledger.enter(name, message)
                await asyncio.sleep(0.002)
                ledger.leave(message)

            alive[name] = await stack.enter_async_context(consumer)

        async with Producer(servers.name_server) as producer:
            await join("first")
            for turn in range(8):
                for number in range(sent // 8):
                    await producer.send("orders", b"%d %d" % (turn, number))
                await join(f"member {turn}")
                if len(alive) > 2:
                    await alive.pop(chance.choice(sorted(alive))).close()
            await until(lambda: sum(len(set(some)) for some in ledger.done.values()) == sent)
    assert ledger.overlaps == []
    assert ledger.skipped() == []


async def test_a_message_that_keeps_failing_holds_its_queue_and_then_leaves_it(
    tmp_path: Path,
) -> None:
    got: list[tuple[bytes, int]] = []
    dead: list[bytes] = []
    async with quick_servers(tmp_path) as servers, Producer(servers.name_server) as producer:
        await create_topic(servers.broker, "orders", 1)
        for body in (b"1", b"2", b"3"):
            await producer.send("orders", body, queue=QUEUE)
        async with Admin(servers.name_server) as admin:
            await admin.groups.create("g", max_attempts=3)
        consumer = PushConsumer(
            servers.name_server,
            group="g",
            ordered=True,
            start=FIRST,
            tuning=PushTuning(suspend_queue_ms=10),
        )

        @consumer.on("orders")
        def handle(message: Any) -> None:
            got.append((message.body, message.reconsume_times))
            if message.body == b"2":
                raise ValueError("always")

        undertaker = PushConsumer(servers.name_server, group="undertaker", start=FIRST)
        undertaker.subscribe("%DLQ%g", lambda message: dead.append(message.body))
        async with consumer:
            await until(lambda: (b"3", 0) in got)
            await until_topic(servers.name_server, "%DLQ%g")
            async with undertaker:
                await until(lambda: dead == [b"2"])
    assert got == [(b"1", 0), (b"2", 0), (b"2", 1), (b"2", 2), (b"3", 0)]


CHILD = """
import asyncio, logging, sys
from rocketpipe import ConsumeFromWhere, MessageQueue, PushConsumer
from rocketpipe.client.consumer.group.assignment import configured
from rocketpipe.client.consumer.tuning import PushTuning

logging.basicConfig(stream=sys.stdout, format="log %(message)s")

async def main():
    queue = MessageQueue(topic="orders", broker_name="broker-a", queue_id=0)
    consumer = PushConsumer(
        sys.argv[1],
        group="g",
        ordered=True,
        start=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        strategy=configured([queue]),
        tuning=PushTuning(
            lock_every_ms=100, lock_start_ms=300, lock_life_ms=600, persist_every_ms=50
        ),
    )

    @consumer.on("orders")
    def handle(message):
        print("entered", message.queue_offset, flush=True)
        sys.stdin.readline()
        loop.call_soon_threadsafe(consumer.stop)

    loop = asyncio.get_running_loop()
    async with consumer:
        await consumer.closed()

asyncio.run(main())
"""


async def test_a_process_that_stood_still_beyond_its_locks_life_drops_its_result(
    tmp_path: Path,
) -> None:
    clock = ManualClock(int(time.time() * 1000))
    got: list[int] = []
    async with quick_servers(tmp_path, clock=clock) as servers:
        await create_topic(servers.broker, "orders", 1)
        async with Producer(servers.name_server) as producer:
            for body in (b"1", b"2", b"3"):
                await producer.send("orders", body, queue=QUEUE)
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            CHILD,
            servers.name_server,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            async with asyncio.timeout(PATIENCE_S):
                assert await child.stdout.readline() == b"entered 0\n"
            child.send_signal(signal.SIGSTOP)
            stopped = time.monotonic()
            other = PushConsumer(
                servers.name_server,
                group="g",
                ordered=True,
                start=FIRST,
                strategy=configured([QUEUE]),
                clock=clock,
            )
            other.subscribe("orders", lambda message: got.append(message.queue_offset))
            async with other:
                assert QUEUE not in other.queues, "the lock is another's"
                async with asyncio.timeout(PATIENCE_S):
                    while await saved_offset(servers.broker) != 3:
                        # The broker's minute passes while the process stands still.
                        await clock.advance(1000)
                await until(lambda: time.monotonic() - stopped > 1)
                child.send_signal(signal.SIGCONT)
                # Its handler ends, and it closes as it always does, saving what it has to save.
                async with asyncio.timeout(PATIENCE_S):
                    said, _ = await child.communicate(b"go on\n")
                assert b"entered" not in said, "it begins nothing under that lock"
                assert b"log lock lost" in said
                assert await saved_offset(servers.broker) == 3
        finally:
            if child.returncode is None:
                child.kill()
                await child.communicate()
    assert got == [0, 1, 2]


async def saved_offset(broker: str) -> int:
    async with Caller() as caller:
        reply = await caller.call(
            broker, QueryConsumerOffset(consumer_group="g", topic="orders", queue_id=0)
        )
        return reply.offset


async def test_the_life_of_an_order_is_consumed_in_its_order(tmp_path: Path) -> None:
    life = ["unpaid", "paid", "shipping", "failed"]
    got: list[str] = []
    async with both_servers(tmp_path) as servers, Producer(servers.name_server) as producer:
        await create_topic(servers.broker, "orders", 4)
        for state in life:
            await producer.send("orders", state.encode(), keys=["01"], order_by="01")
        consumer = PushConsumer(servers.name_server, group="g", ordered=True, start=FIRST)

        @consumer.on("orders")
        async def handle(message: Any) -> None:
            got.append(message.body.decode())

        async with consumer:
            await until(lambda: len(got) >= 4)
    assert got == life
