"""The machine's own noise: the same work, done again and again between the rounds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Final

from benchmarks.report.samples import Calibration

REPEATS: Final = 7
STEPS: Final = 300_000


def calibrate(when: str) -> Calibration:
    """Time a loop that always does the same; the median of a few repeats."""
    cpu, wall = [], []
    for _ in range(REPEATS):
        cpu_before, wall_before = time.thread_time(), time.perf_counter()
        total = 0
        for step in range(STEPS):
            total = (total * 31 + step) & 0xFFFF
        cpu.append(time.thread_time() - cpu_before)
        wall.append(time.perf_counter() - wall_before)
    return Calibration(
        when=when,
        cpu_ms=round(statistics.median(cpu) * 1000, 3),
        wall_ms=round(statistics.median(wall) * 1000, 3),
    )


def describe(calibrations: Sequence[Calibration]) -> str:
    """How steady the machine was, in a sentence."""
    cpu = [each.cpu_ms for each in calibrations]
    wall = [each.wall_ms for each in calibrations]
    return (
        f"A loop that always does the same took {min(cpu):.1f} to {max(cpu):.1f} ms of CPU time "
        f"and {min(wall):.1f} to {max(wall):.1f} ms by the clock, taken {len(calibrations)} times "
        "before, between and after the rounds."
    )
