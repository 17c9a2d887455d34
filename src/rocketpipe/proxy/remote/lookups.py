"""Settings of topics and groups as brokers have them, asked once and remembered for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from rocketpipe.clock import Clock
from rocketpipe.errors import RocketPipeError

ValueT = TypeVar("ValueT")

#: An operator's change is noticed after so long, as by RocketMQ's proxy.
FRESH_MS: Final = 20_000
#: What is not there may be made any moment.
MISSING_MS: Final = 1000
MAX_NAMES: Final = 10_000


class Lookups(Generic[ValueT]):
    """Answers by name; each is asked for by one question at a time, whoever else waits for it."""

    def __init__(
        self,
        ask: Callable[[str], Awaitable[ValueT | None]],
        clock: Clock,
        *,
        max_names: int = MAX_NAMES,
    ) -> None:
        """``ask`` gives the value of a name, or None: then it is asked for again soon."""
        self._ask = ask
        self._clock = clock
        self._max_names = max_names
        #: What is known, and until when that is good; what was asked longest ago comes first.
        self._known: dict[str, tuple[int, ValueT | None]] = {}
        self._asking: dict[str, asyncio.Task[ValueT | None]] = {}

    async def get(self, name: str) -> ValueT | None:
        """The value of a name, None if it has none; an old one if nobody can be asked now.

        Raises:
            RocketPipeError: What asking failed with, if there is no old one.
        """
        known = self._known.get(name)
        if known is not None and self._clock.monotonic_ms() < known[0]:
            return known[1]
        asking = self._asking.get(name)
        if asking is None:
            asking = self._asking[name] = asyncio.ensure_future(self._asked(name))
            asking.add_done_callback(lambda _: self._asking.pop(name, None))
        try:
            return await asyncio.shield(asking)
        except RocketPipeError:
            if known is None:
                raise
            return known[1]

    async def _asked(self, name: str) -> ValueT | None:
        value = await self._ask(name)
        self._known.pop(name, None)
        while len(self._known) >= self._max_names:
            del self._known[next(iter(self._known))]
        good_ms = MISSING_MS if value is None else FRESH_MS
        self._known[name] = (self._clock.monotonic_ms() + good_ms, value)
        return value
