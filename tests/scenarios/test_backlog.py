"""A group that is a gigabyte behind catches up while more is sent, and nobody's memory grows."""

from __future__ import annotations

import asyncio
import os
import sys
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketpipe import Admin, ConsumeFromWhere, Message, Producer, PushConsumer, ReceivedMessage
from rocketpipe.background import running
from rocketpipe.clock import SystemClock
from rocketpipe.testing.servers import serving

pytestmark = [
    pytest.mark.scenario,
    pytest.mark.soak,
    pytest.mark.skipif(sys.platform != "linux", reason="/proc says what a process has in memory"),
]

BACKLOG_BYTES = int(os.environ.get("ROCKETPIPE_BACKLOG_BYTES", str(1 << 30)))
BODY_BYTES = 4096
BATCH = 64
SENDERS = 4
BACKLOG = BACKLOG_BYTES // (BODY_BYTES * BATCH) * BATCH
#: While the group catches up a batch is sent this often: some megabytes a second.
SEND_EVERY_MS = 100
LOOK_EVERY_MS = 100
#: A group that does not gain on its producers by this much never catches up on a bad day.
TIMES_FASTER = 3
FLAT_BYTES = 100 << 20
PATIENCE_S = 1800


class Numbers:
    """Messages with numbers: how many were sent, and how often each was handled."""

    def __init__(self) -> None:
        self.sent = 0
        self.handled = 0
        self._times = array("B")

    def batch(self) -> list[Message]:
        """The next ones, to be sent."""
        first, self.sent = self.sent, self.sent + BATCH
        self._times.extend([0] * BATCH)
        filling = bytes(BODY_BYTES - 8)
        return [
            Message("backlog", number.to_bytes(8, "big") + filling)
            for number in range(first, self.sent)
        ]

    async def handle(self, message: ReceivedMessage) -> None:
        """Note one; once is right, so a second time is enough to know."""
        number = int.from_bytes(message.body[:8], "big")
        self._times[number] = min(2, self._times[number] + 1)
        self.handled += 1

    def wrong(self) -> dict[int, int]:
        """How often each was handled that was not handled once."""
        return {number: times for number, times in enumerate(self._times) if times != 1}


class Memory:
    """What no file backs of some processes' memory: the first and the greatest that was seen."""

    def __init__(self, *pids: int) -> None:
        self._files = {pid: Path(f"/proc/{pid}/status") for pid in pids}
        self.first = {pid: self._now(pid) for pid in pids}
        self.most = dict(self.first)

    def _now(self, pid: int) -> int:
        lines = self._files[pid].read_text().splitlines()
        (kilobytes,) = (line.split()[1] for line in lines if line.startswith("RssAnon:"))
        return int(kilobytes) << 10

    @property
    def grown(self) -> dict[int, int]:
        """By how much each is, or was, more than at first."""
        return {pid: self.most[pid] - self.first[pid] for pid in self.most}

    async def watch(self) -> None:
        """Look again and again, until cancelled."""
        clock = SystemClock()
        while True:
            for pid in self._files:
                self.most[pid] = max(self.most[pid], self._now(pid))
            await clock.sleep(LOOK_EVERY_MS)


@contextmanager
def servers(scratch: Path) -> Iterator[tuple[str, int]]:
    with serving(scratch) as started:
        yield started.name_server, started.process.pid


async def until_handled(numbers: Numbers, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while numbers.handled < count:  # noqa: ASYNC110 - no event per message on this path
            await asyncio.sleep(0.01)


async def test_a_group_far_behind_catches_up_while_more_is_sent_and_memory_stays_flat(
    tmp_path: Path,
) -> None:
    numbers = Numbers()
    with servers(tmp_path) as (names, pid):
        async with Admin(names) as admin, Producer(names, timeout_ms=60_000) as producer:
            await admin.topics.create("backlog", queues=4)

            async def send_up_to(count: int) -> None:
                while numbers.sent < count:
                    await producer.send_batch(numbers.batch())

            async def send_steadily() -> None:
                clock = SystemClock()
                while True:
                    await producer.send_batch(numbers.batch())
                    await clock.sleep(SEND_EVERY_MS)

            # Memory counts from when everybody has been at work for a while.
            await send_up_to(BACKLOG // 10)
            memory = Memory(pid, os.getpid())
            async with running(memory.watch(), "memory"):
                await asyncio.gather(*(send_up_to(BACKLOG) for _ in range(SENDERS)))
                behind = numbers.sent
                consumer = PushConsumer(
                    names, group="late", start=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
                )
                consumer.subscribe("backlog", numbers.handle)
                async with consumer:
                    async with running(send_steadily(), "sends"):
                        await until_handled(numbers, behind)
                        meanwhile = numbers.sent - behind
                    await until_handled(numbers, numbers.sent)
    assert numbers.wrong() == {}
    assert numbers.handled == numbers.sent
    assert behind >= TIMES_FASTER * meanwhile, f"{meanwhile} were sent while {behind} were handled"
    assert max(memory.grown.values()) < FLAT_BYTES, memory.grown
