"""Looks at the cluster once a second: how much is stored, and how far each group is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from rocketpipe import Admin, Session
from rocketpipe.errors import RocketPipeError
from rocketpipe.jobs.plots import Mark

EVERY_S: Final = 1.0
#: A broker that is away is not waited for: the next look comes in any case, and soon.
LOOK_TIMEOUT_S: Final = 3.0
AGAIN_AFTER_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Sample:
    """What one look found; times are seconds since the run began."""

    at_s: float
    stored: int
    #: Messages that each group has still to read. A group that has committed nothing has all.
    lags: Mapping[str, int]
    #: Messages that each group has got so far.
    read: Mapping[str, int]
    dead_letters: int


class Watch:
    """Samples and marks of one run."""

    def __init__(
        self,
        topic: str,
        groups: Iterable[str],
        dead_letters: str,
        counted: Mapping[str, Callable[[], int]] | None = None,
    ) -> None:
        """``counted`` says for groups that filter how much they got: offsets would tell more."""
        self.samples: list[Sample] = []
        self.marks: list[Mark] = []
        self._topic = topic
        self._groups = tuple(groups)
        self._dead_letters = dead_letters
        self._counted = counted or {}
        self._began = time.monotonic()

    def now_s(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._began

    def since_start_s(self, moment: float) -> float:
        """A moment of ``time.monotonic``, as seconds since the run began."""
        return moment - self._began

    @contextmanager
    def lasting(self, label: str, *, is_blind: bool = False) -> Iterator[None]:
        """Note what happens now and is over with the block."""
        at_s = self.now_s()
        yield
        self.marks.append(Mark(at_s, label, self.now_s(), is_blind))

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
                    next_at = time.monotonic() + AGAIN_AFTER_S
                await asyncio.sleep(max(0.0, next_at - time.monotonic()))

    async def look(self, admin: Admin) -> Sample:
        """Look once.

        Raises:
            RocketPipeError: If the broker is away.
        """
        ends, dead, *places = await asyncio.gather(
            admin.offsets.ends(self._topic),
            dead_letters(admin, self._dead_letters),
            *(admin.offsets.of_group(group, self._topic) for group in self._groups),
        )
        stored = sum(each.end for each in ends.values())
        lags = {
            group: sum(place.lag for place in of_group)
            for group, of_group in zip(self._groups, places, strict=True)
        }
        read = {
            group: self._counted[group]() if group in self._counted else stored - lag
            for group, lag in lags.items()
        }
        return Sample(self.now_s(), stored, lags, read, dead)


async def dead_letters(admin: Admin, topic: str) -> int:
    """How many dead letters there are; none before their topic is there."""
    if topic not in await admin.topics.names(internal=True):
        return 0
    return sum(each.end for each in (await admin.offsets.ends(topic)).values())
