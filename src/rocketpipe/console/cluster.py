"""The cluster that a console shows, as one person may see it: a client of its own.

On a cluster that is open to everybody, everybody shares one. On one that asks who asks, each person
has one that signs with that person's secret, so that servers judge, and not the console.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Final, Self

from rocketpipe.background import running
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.diagnosis import Diagnosis
from rocketpipe.client.admin.findings import Finding, unknown
from rocketpipe.client.producer.producer import Producer
from rocketpipe.client.session import Session
from rocketpipe.console.rings import EVERY_MS, Rings
from rocketpipe.console.tailing import SharedEnds
from rocketpipe.errors import RocketPipeError

#: Findings that are younger are given again.
FINDINGS_MS: Final = 30_000
#: Who sends for a console, as brokers see it.
PRODUCER_GROUP: Final = "rocketpipe_console"
#: Nobody has looked for so long: no points are taken any more.
IDLE_MS: Final = 3_600_000
#: So many groups are asked for the points of charts.
_GROUPS_AT_ONCE: Final = 32


class Cluster:
    """One client of the cluster, with what it has found out: ``async with Cluster(session)``."""

    def __init__(self, session: Session) -> None:
        """Take a session that nobody has opened."""
        self.session = session
        self.admin = Admin(session)
        self.rings = Rings()
        self.tail_ends = SharedEnds(session)
        self._stack = AsyncExitStack()
        self._producer: Producer | None = None
        self._starting = asyncio.Lock()
        # Nobody has yet: a cluster that asks who asks would refuse, and note it, again and again.
        self._looked_ms = session.clock.monotonic_ms() - IDLE_MS
        #: What the last check-up found, and when.
        self.findings: tuple[Finding, ...] = ()
        self.found_ms: int | None = None
        self._checking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.admin)
        await self._stack.enter_async_context(running(self._sample(), "console points"))
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait([self._checking])
        await self._stack.aclose()

    async def producer(self) -> Producer:
        """What sends in this person's name; it is started when first used."""
        async with self._starting:
            if self._producer is None:
                producer = Producer(self.session, group=PRODUCER_GROUP)
                self._producer = await self._stack.enter_async_context(producer)
            return self._producer

    def look(self) -> None:
        """Note that somebody looks; have the cluster looked over anew if that was long ago."""
        now_ms = self.session.clock.now_ms()
        self._looked_ms = self.session.clock.monotonic_ms()
        is_old = self.found_ms is None or now_ms - self.found_ms >= FINDINGS_MS
        if is_old and (self._checking is None or self._checking.done()):
            self._checking = asyncio.create_task(self._check(), name="console check-up")

    @property
    def is_checking(self) -> bool:
        """Whether a check-up is under way."""
        return self._checking is not None and not self._checking.done()

    async def _check(self) -> None:
        try:
            found = [each async for each in Diagnosis(self.session).findings()]
        except RocketPipeError as error:
            found = [unknown("the cluster", str(error), getattr(error, "hint", None))]
        self.findings = tuple(found)
        self.found_ms = self.session.clock.now_ms()

    async def _sample(self) -> None:
        clock = self.session.clock
        while True:
            if clock.monotonic_ms() - self._looked_ms < IDLE_MS:
                await self.sample_once()
            await clock.sleep(EVERY_MS)

    async def sample_once(self) -> None:
        """Take a point of every series; what does not answer has none."""
        now_ms = self.session.clock.now_ms()
        try:
            brokers = [each.name for each in await self.admin.brokers.all()]
        except RocketPipeError:
            return
        facts = await asyncio.gather(*(self._rates(name) for name in brokers))
        for at, what in enumerate(("in", "out", "disk")):
            values = [fact[at] for fact in facts if fact is not None]
            for name, fact in zip(brokers, facts, strict=True):
                self.rings.add(f"{what}:{name}", now_ms, fact[at] if fact else None)
            whole = max(values, default=None) if what == "disk" else sum(values)
            # A sum with an unknown part is no point: the line has a gap there.
            self.rings.add(what, now_ms, whole if len(values) == len(brokers) else None)
        groups = self.rings.names("lag:")
        for begin in range(0, len(groups), _GROUPS_AT_ONCE):
            some = groups[begin : begin + _GROUPS_AT_ONCE]
            lags = await asyncio.gather(*(self._lag(group) for group in some))
            for group, lag in zip(some, lags, strict=True):
                self.rings.add(f"lag:{group}", now_ms, lag)

    async def _rates(self, broker: str) -> tuple[float, float, float] | None:
        try:
            load = await self.admin.brokers.load(broker)
        except RocketPipeError:
            return None
        return load.in_rate, load.out_rate, load.disk_percent

    async def _lag(self, group: str) -> float | None:
        try:
            return (await self.admin.progress.of_group(group)).lag
        except RocketPipeError:
            return None
