"""A group that follows each aircraft: whatever happens, its flights come in the order they left."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from demo.tally import Tally
from rocketpipe import PushConsumer, PushTuning, ReceivedMessage

GROUP: Final = "aircraft-followers"
BATCH: Final = 64


class Followers:
    """Consumes in order, and notes when an aircraft's flights do not come so.

    What comes again after a kill is older than what was seen last, and is no breach of order: the
    group had it before. A breach is a flight that comes for the first time, behind a later one of
    the same aircraft.
    """

    def __init__(self, total: int) -> None:
        self.tally = Tally(total)
        self.breaches = 0
        self._last: dict[str, int] = {}

    @property
    def aircraft(self) -> int:
        """How many were followed."""
        return len(self._last)

    def consumer(self, name_server: str, topic: str) -> PushConsumer:
        """The group's one member; it consumes within its ``async with``."""
        consumer = PushConsumer(
            name_server,
            group=GROUP,
            ordered=True,
            start="first",
            tuning=PushTuning(
                pull_count=256,
                queue_messages=4000,
                span=8000,
                persist_every_ms=1000,
                lock_every_ms=5000,  # a restarted broker knows no locks: ask it again soon
            ),
        )
        consumer.subscribe(topic, self.handle, batch=BATCH)
        return consumer

    async def handle(self, messages: Sequence[ReceivedMessage]) -> None:
        """Follow some flights of one queue."""
        for message in messages:
            self.note(message.keys[0], json.loads(message.body)["id"])

    def note(self, aircraft: str, number: int) -> None:
        """Note that an aircraft's flight came."""
        is_new = self.tally.add(number)
        last = self._last.get(aircraft, -1)
        if number > last:
            self._last[aircraft] = number
        elif is_new:
            self.breaches += 1
