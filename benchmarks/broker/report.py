"""Medians of all runs as Markdown tables, and the samples themselves as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from typing import Any, Final

from benchmarks.broker.generator import Sample
from benchmarks.broker.scenarios import Scenario
from benchmarks.broker.usage import Memory

NONE: Final = "–"
FAILED: Final = "failed"


@dataclass(slots=True)
class Cell:
    """All runs of one scenario against one peer. A single failed run takes the figure away."""

    samples: list[Sample] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def median(self, of: Callable[[Sample], float]) -> float | None:
        """The median over all runs; None where there is no figure."""
        if self.failures or not self.samples:
            return None
        return statistics.median(map(of, self.samples))

    @property
    def spread(self) -> float | None:
        """Half the range of messages a second by their median; None for fewer than two runs."""
        rates = [sample.messages_s for sample in self.samples]
        if self.failures or len(rates) < 2:
            return None
        return (max(rates) - min(rates)) / 2 / statistics.median(rates)


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one server took beside its work."""

    sync: bool
    ready_s: float
    idle: Memory
    end: Memory


@dataclass(slots=True)
class Report:
    """Everything that one run of the benchmark found."""

    machine: str
    method: str
    scenarios: Sequence[Scenario]
    #: By name, in the order of the columns.
    titles: Mapping[str, str]
    cells: dict[tuple[Scenario, str], Cell] = field(default_factory=dict)
    footprints: dict[str, list[Footprint]] = field(default_factory=dict)
    #: Peers that could not be had, and why.
    skipped: dict[str, str] = field(default_factory=dict)
    #: What else a reader should know.
    remarks: list[str] = field(default_factory=list)

    def cell(self, scenario: Scenario, peer: str) -> Cell:
        """Where the runs of one scenario against one peer go."""
        return self.cells.setdefault((scenario, peer), Cell())

    def markdown(self) -> str:
        """The report, for people."""
        return "\n".join(self._lines()) + "\n"

    def json(self) -> dict[str, Any]:
        """The report, for programs: every sample."""
        return {
            "machine": self.machine,
            "method": self.method,
            "peers": dict(self.titles),
            "skipped": self.skipped,
            "runs": [
                {
                    "scenario": scenario.name,
                    "peer": peer,
                    "samples": [asdict(sample) for sample in cell.samples],
                    "failures": cell.failures,
                }
                for (scenario, peer), cell in self.cells.items()
            ],
            "footprints": {
                peer: [asdict(footprint) for footprint in each]
                for peer, each in self.footprints.items()
            },
        }

    def _lines(self) -> Iterator[str]:
        yield "# Brokers under load"
        yield ""
        yield f"{self.machine}. {self.method}"
        yield ""
        yield "Messages a second (server CPU time a message, µs):"
        yield ""
        yield from self._by_scenario(_rate, compare=True)
        yield ""
        yield "Time to the answer, ms: half of all below, 99 of 100 below:"
        yield ""
        yield from self._by_scenario(_latency)
        yield ""
        yield (
            "Beside the work: time from start to a first stored message; memory in MB, resident "
            "when idle, resident at most (with the pages of mapped files), not backed by files:"
        )
        yield ""
        head = ["", "answers from", "ready, s", "idle", "most", "of it anonymous, at the end"]
        yield from table(head, list(self._footprint_rows()))
        yield ""
        yield from self._notes()

    def _by_scenario(self, text: Callable[[Cell], str], *, compare: bool = False) -> Iterator[str]:
        compare = compare and {"rocketpipe", "apache"} <= self.titles.keys()
        rows = []
        for scenario in self.scenarios:
            found = [self.cells.get((scenario, peer), Cell()) for peer in self.titles]
            row = [scenario.title, *map(text, found)]
            if compare:
                row.append(self._ratio(scenario))
            rows.append(row)
        head = ["", *self.titles.values()]
        yield from table(head + ["ours : Apache's"] * compare, rows)

    def _ratio(self, scenario: Scenario) -> str:
        ours, apaches = (
            self.cells.get((scenario, peer), Cell()) for peer in ("rocketpipe", "apache")
        )
        ratios = []
        for figure in (attrgetter("messages_s"), attrgetter("cpu_us")):
            mine, theirs = ours.median(figure), apaches.median(figure)
            if mine is None or not theirs:
                return NONE
            ratios.append(mine / theirs)
        return "{:.2f} ({:.2f})".format(*ratios)

    def _footprint_rows(self) -> Iterator[list[str]]:
        for peer, footprints in self.footprints.items():
            for each in footprints:
                yield [
                    self.titles[peer],
                    "disk" if each.sync else "memory",
                    f"{each.ready_s:.2f}",
                    f"{each.idle.resident / 1e6:.0f}",
                    f"{each.end.peak / 1e6:.0f}",
                    f"{each.end.anonymous / 1e6:.0f}",
                ]

    def _notes(self) -> Iterator[str]:
        samples = [sample for cell in self.cells.values() for sample in cell.samples]
        if samples:
            foreign = statistics.median(sample.foreign_cores for sample in samples)
            yield f"- Other programs kept {foreign:.2f} cores busy meanwhile (median of all runs)."
        spreads = [cell.spread for cell in self.cells.values() if cell.spread is not None]
        if spreads:
            yield (
                f"- Spread, half the range by the median: {statistics.median(spreads):.0%} in the "
                f"median cell, {max(spreads):.0%} in the worst."
            )
        for peer, reason in self.skipped.items():
            yield f"- {peer} was left out: {reason}"
        yield from (f"- {remark}" for remark in self.remarks)
        for (scenario, peer), cell in self.cells.items():
            for failure in cell.failures:
                yield f"- {scenario.name} against {peer} failed: {failure}"


def _rate(cell: Cell) -> str:
    rate, cpu = cell.median(attrgetter("messages_s")), cell.median(attrgetter("cpu_us"))
    if rate is None or cpu is None:
        return FAILED if cell.failures else NONE
    return f"{short(rate)} ({cpu:.1f})"


def _latency(cell: Cell) -> str:
    half, most = cell.median(attrgetter("p50_ms")), cell.median(attrgetter("p99_ms"))
    if half is None or most is None:
        return FAILED if cell.failures else NONE
    return f"{half:.2f} / {most:.1f}"


def short(number: float) -> str:
    """Three digits are as much as such a figure is worth: 1234567 as 1.23M, 45678 as 45.7k."""
    for unit, least in (("M", 1e6), ("k", 1e3)):
        if number >= least * 0.9995:  # what would be rounded up to it
            scaled = number / least
            digits = 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
            return f"{scaled:.{digits}f}{unit}"
    return f"{number:.0f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A Markdown table that can be read as it is."""
    widths = [max(3, *(len(row[at]) for row in [head, *rows])) for at in range(len(head))]
    for row in [head, ["-" * width for width in widths], *rows]:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        yield f"| {' | '.join(cells)} |"
