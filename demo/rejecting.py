"""A group that wants flights that flew: the others it rejects, until they are dead letters.

first time     again after level 1, a second
second time    again after level 2, five seconds
third time     to the dead letters, %DLQ%departures
"""

from __future__ import annotations

import json
import time
from typing import Final

from demo.tally import Tally
from rocketpipe import PushConsumer, PushTuning, ReceivedMessage, Retry

GROUP: Final = "departures"
DEAD_LETTERS: Final = f"%DLQ%{GROUP}"
RETRIES: Final = 2
ATTEMPTS: Final = RETRIES + 1


class Departures:
    """Takes what departed and rejects what did not; counts both, and each attempt."""

    def __init__(self, total: int) -> None:
        self.accepted = Tally(total)
        #: The flights that were rejected for the first, the second and the third time.
        self.rejected = [Tally(total) for _ in range(ATTEMPTS)]
        #: When each rejection happened, and which attempt it was, from 0 on.
        self.moments: list[tuple[float, int]] = []

    def consumer(self, name_server: str, topic: str) -> PushConsumer:
        """The group's one member; it consumes within its ``async with``."""
        consumer = PushConsumer(
            name_server,
            group=GROUP,
            start="first",
            concurrency=64,
            tuning=PushTuning(
                pull_count=256,
                queue_messages=4000,
                span=8000,
                max_attempts=ATTEMPTS,
                persist_every_ms=1000,
            ),
        )
        consumer.subscribe(topic, self.handle)
        return consumer

    async def handle(self, message: ReceivedMessage) -> None:
        """Take a flight, or ask for it again later."""
        flight = json.loads(message.body)
        if flight["dep_time"] is not None:
            self.accepted.add(flight["id"])
            return
        attempt = min(message.reconsume_times, RETRIES)
        self.rejected[attempt].add(flight["id"])
        self.moments.append((time.monotonic(), attempt))
        raise Retry("a flight that never departed", delay_level=attempt + 1)
