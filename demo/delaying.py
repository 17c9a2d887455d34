"""Boarding calls: messages that are sent now and show later, across whatever happens meanwhile.

Every other one is delayed by one of RocketMQ's levels, the others by a time of their own. The due
moment travels in the body, so that who receives a call can say whether it came too early.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Final

from demo.tally import Tally
from rocketpipe import (
    Message,
    Producer,
    PushConsumer,
    PushTuning,
    ReceivedMessage,
)

TOPIC: Final = "boarding-calls"
GROUP: Final = "gates"
LEVELS: Final = ((1, 1_000), (2, 5_000), (3, 10_000))  # as RocketMQ has them by default
OWN_DELAYS_MS: Final = (3_000, 6_000, 12_000)
#: RocketMQ's timer goes in steps of a second, and counts a delay from the step before.
STEP_MS: Final = 1_000
SEND_TIMEOUT_MS: Final = 30_000
AT_ONCE: Final = 100


class BoardingCalls:
    """The calls that were sent, and those that came."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.tally = Tally(count)
        self.early = 0
        #: How long after its moment the last one came that came late.
        self.latest_ms = 0

    async def send(self, name_server: str) -> None:
        """Send them all; they are stored when this returns, and most are not yet due.

        Raises:
            RocketPipeError: If the broker does not take them.
        """
        async with Producer(name_server, group="towers", timeout_ms=SEND_TIMEOUT_MS) as producer:
            for first in range(0, self.count, AT_ONCE):
                numbers = range(first, min(first + AT_ONCE, self.count))
                await asyncio.gather(*(producer.send(self._call(number)) for number in numbers))

    def consumer(self, name_server: str) -> PushConsumer:
        """The group's one member; it consumes within its ``async with``."""
        consumer = PushConsumer(
            name_server,
            group=GROUP,
            start="first",
            tuning=PushTuning(persist_every_ms=1000),
        )
        consumer.subscribe(TOPIC, self.handle)
        return consumer

    async def handle(self, message: ReceivedMessage) -> None:
        """Note a call, and whether it was time for it."""
        call = json.loads(message.body)
        self.note(call["id"], call["due_ms"], _now_ms())

    def note(self, number: int, due_ms: int, now_ms: int) -> None:
        """Note that a call came now; it was to come at ``due_ms`` or a little later."""
        self.early += now_ms < due_ms - STEP_MS
        if self.tally.add(number):
            self.latest_ms = max(self.latest_ms, now_ms - due_ms)

    def _call(self, number: int) -> Message:
        turn, now_ms = number // 2, _now_ms()
        if number % 2:
            delay_ms = OWN_DELAYS_MS[turn % len(OWN_DELAYS_MS)]
            return Message(TOPIC, _body(number, now_ms + delay_ms), delay_ms=delay_ms)
        level, delay_ms = LEVELS[turn % len(LEVELS)]
        return Message(TOPIC, _body(number, now_ms + delay_ms), delay_level=level)


def _body(number: int, due_ms: int) -> bytes:
    return json.dumps({"id": number, "due_ms": due_ms}).encode()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
