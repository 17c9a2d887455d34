"""Doing something again and again, at moments that do not drift.

The moments are a period apart by a clock that nobody sets. Whoever takes longer than a period
misses the moments that pass meanwhile: two runs never overlap, and none is made up for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def repeat(
    work: Callable[[], None],
    every_s: float,
    stop: threading.Event,
    *,
    monotonic: Callable[[], float] = time.monotonic,
    wait: Callable[[float], object] | None = None,
) -> int:
    """Do it now, and at every moment until ``stop`` is set; gives how often it was done."""
    pause = stop.wait if wait is None else wait
    begin = monotonic()
    done = 0
    while not stop.is_set():
        work()
        done += 1
        passed = monotonic() - begin
        pause(begin + (passed // every_s + 1) * every_s - monotonic())
    return done
