"""Looks at the cluster once a second: how much is stored, and how far behind each group is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from rocketpipe import Admin, Session
from rocketpipe.errors import RocketPipeError

EVERY_S: Final = 1.0
#: A broker that is away is not waited for: the next look comes in any case.
LOOK_TIMEOUT_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Sample:
    """What one look found; times are seconds since the run began."""

    at_s: float
    stored: int
    #: Messages that each group has still to read. A group that has committed nothing has all.
    lags: Mapping[str, int]
    dead_letters: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at a moment, for the plots."""

    at_s: float
    label: str


class Watch:
    """Samples and marks of one run."""

    def __init__(self, topic: str, groups: Iterable[str], dead_letters: str) -> None:
        self.samples: list[Sample] = []
        self.marks: list[Mark] = []
        self._topic = topic
        self._groups = tuple(groups)
        self._dead_letters = dead_letters
        self._began = time.monotonic()

    def now_s(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._began

    def since_start_s(self, moment: float) -> float:
        """A moment of ``time.monotonic``, as seconds since the run began."""
        return moment - self._began

    def mark(self, label: str) -> None:
        """Note that something happened now."""
        self.marks.append(Mark(self.now_s(), label))

    async def run(self, name_server: str) -> None:
        """Look until cancelled; while the broker is away there is nothing to see."""
        session = Session(name_server, instance="watch")
        async with session, Admin(session) as admin:
            while True:
                next_at = time.monotonic() + EVERY_S
                try:
                    async with asyncio.timeout(LOOK_TIMEOUT_S):
                        self.samples.append(await self.look(admin))
                except (RocketPipeError, TimeoutError):
                    pass
                await asyncio.sleep(max(0.0, next_at - time.monotonic()))

    async def look(self, admin: Admin) -> Sample:
        """Look once.

        Raises:
            RocketPipeError: If the broker is away.
        """
        ends = await admin.offsets.ends(self._topic)
        lags = {}
        for group in self._groups:
            places = await admin.offsets.of_group(group, self._topic)
            lags[group] = sum(place.lag for place in places)
        dead = await dead_letters(admin, self._dead_letters)
        return Sample(self.now_s(), sum(each.end for each in ends.values()), lags, dead)


async def dead_letters(admin: Admin, topic: str) -> int:
    """How many dead letters there are; none before their topic is there."""
    if topic not in await admin.topics.names(internal=True):
        return 0
    return sum(each.end for each in (await admin.offsets.ends(topic)).values())
