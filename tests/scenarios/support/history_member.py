"""A member of a group in a process of its own, which a test may kill.

    python -m tests.scenarios.support.history_member '{"name_servers": …}'

It prints a line when it has joined, and closes in good order when its input ends.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec
from tests.scenarios.support.hurried_clock import HurriedClock

from rocketpipe import ConsumeFromWhere, PushConsumer
from rocketpipe.client.consumer.group.assignment import AVERAGE
from rocketpipe.testing.histories.history import Journal, Recorder


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What it is told to play."""

    name_servers: str
    journal: str
    name: str
    group: str
    topic: str
    ordered: bool = False
    #: How long its handler takes for a message.
    work_s: float = 0.002


async def play(part: Part) -> None:
    with Journal(Path(part.journal)) as journal:
        record = Recorder(journal, part.name)
        consumer = PushConsumer(
            part.name_servers,
            group=part.group,
            ordered=part.ordered,
            start=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            strategy=record.sharing(part.group, AVERAGE),
            concurrency=4,
            clock=HurriedClock(),
        )

        @consumer.on(part.topic)
        async def handle(message: Any) -> None:
            with record.handling(part.group, message):
                await asyncio.sleep(part.work_s)

        async with consumer:
            record.joined(part.group, part.topic, ordered=part.ordered)
            print("joined", flush=True)  # noqa: T201 - the test waits for it
            await asyncio.to_thread(sys.stdin.read)
            with record.leaving(part.group):
                await consumer.close()


if __name__ == "__main__":
    asyncio.run(play(msgspec.json.decode(sys.argv[1], type=Part)))
