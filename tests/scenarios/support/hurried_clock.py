"""A clock that hurries, for what takes RocketMQ's clients half a minute."""

from __future__ import annotations

import asyncio
import time

#: Locks of queues last six seconds then: less, and a machine that is busy with other things for a
#: moment would seem dead.
SPEED = 10
#: When the machine was started, as far as this clock knows.
START_MS = 1_700_000_000_000


class HurriedClock:
    """The machine's clock, ``speed`` times as fast; all on the machine that have it agree."""

    def __init__(self, speed: int = SPEED) -> None:
        self._speed = speed

    def now_ms(self) -> int:
        return START_MS + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() * self._speed // 1_000_000

    async def sleep(self, duration_ms: int) -> None:
        await asyncio.sleep(duration_ms / 1000 / self._speed)
