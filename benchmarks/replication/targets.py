"""What was asked of replicas, beside what a run has found.

Ratios are taken round by round, of runs that followed each other, and their median counts: what
disturbs the machine for a while disturbs both sides of one.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Final

from benchmarks.broker.generator import Sample
from benchmarks.broker.report import Cell
from benchmarks.broker.scenarios import Scenario

TARGETS: Final = ["", "found", "asked for"]
#: By the name of a load and that of a group.
Cells = Mapping[tuple[str, str], Cell]

_RATE: Final[Callable[[Sample], float]] = attrgetter("messages_s")
_CPU: Final[Callable[[Sample], float]] = attrgetter("cpu_us")


def _all_cpu(sample: Sample) -> float:
    return sample.cpu_us + sample.replicas_us


def ratio(mine: Cell, others: Cell, of: Callable[[Sample], float]) -> float | None:
    """One figure by another's, the median over the rounds; None where one of them failed."""
    if mine.failures or others.failures:
        return None
    rounds = zip(mine.samples, others.samples, strict=False)
    found = [of(one) / of(other) for one, other in rounds if of(other)]
    return statistics.median(found) if found else None


def targets(cells: Cells, loads: Iterable[Scenario]) -> Iterator[list[str]]:
    """A row for each target and load for which both sides were measured."""
    for load in loads:

        def by(mine: str, other: str, of: Callable[[Sample], float]) -> float | None:
            none = Cell()
            sides = (cells.get((load.name, name), none) for name in (mine, other))  # noqa: B023
            return ratio(*sides, of)

        rate, cpu = by("async", "alone", _RATE), by("async", "alone", _CPU)
        if rate is not None and cpu is not None:
            found = f"{rate - 1:+.0%} sends, {cpu - 1:+.0%} CPU of the master"
            yield [f"asynchronous by no replicas: {load.title}", found, "at most 15 % less"]
        rate, cpu = by("sync", "apache-sync", _RATE), by("sync", "apache-sync", _all_cpu)
        if rate is not None and cpu is not None:
            asked = "1.5" if load.connections > 1 else "no figure"
            found = f"{rate:.2f} of the sends, {cpu:.2f} of the CPU of both"
            yield [f"synchronous by Apache's: {load.title}", found, asked]
        cpu = by("alone", "before", _CPU)
        if cpu is not None:
            found = f"{cpu - 1:+.1%} CPU"
            yield [f"no replicas by the commit before: {load.title}", found, "at most 2 % more"]
