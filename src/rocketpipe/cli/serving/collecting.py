"""Python's search for garbage, kept short in a server that keeps much.

A full search looks at every object there is, and everybody waits meanwhile: for most of a second
with tens of thousands of queues. What lives as long as the server does need not be looked at again:

    while servers start                 nothing is searched, as what is made is there to stay
    once they serve                     what is there is left out from then on
    after a full search that took long  what it found to be alive is left out as well

What was left out goes by itself when nobody needs it, as all objects do, unless it is part of a
cycle: of those a server makes few, and they were alive when it was left out.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Final

log = logging.getLogger(__name__)

#: A full search that takes longer is one too many.
LONG_S: Final = 0.05
_FULL: Final = 2


class ShortCollections:
    """Watches full searches, and has the long ones find less the next time."""

    def __init__(self, now: Callable[[], float] = perf_counter) -> None:
        """``now`` tells the seconds that have passed."""
        self._now = now
        self._began = 0.0

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        """Be told of a search, as ``gc.callbacks`` are."""
        if info.get("generation") != _FULL:
            return
        if phase == "start":
            self._began = self._now()
        elif (took := self._now() - self._began) >= LONG_S:
            gc.freeze()
            log.info("a search for garbage took %d ms, and is shorter from now on", took * 1000)


@contextmanager
def short_collections() -> Iterator[Callable[[], None]]:
    """Search for no garbage inside the block until what it is given is called; then shortly."""
    watch = ShortCollections()
    gc.disable()

    def started() -> None:
        gc.freeze()
        gc.callbacks.append(watch)
        gc.enable()

    try:
        yield started
    finally:
        if watch in gc.callbacks:
            gc.callbacks.remove(watch)
        gc.enable()
        gc.unfreeze()
