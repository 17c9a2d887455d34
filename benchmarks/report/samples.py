"""All that a run has found so far, kept as JSON: an interrupted run loses nothing."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

FORMAT: Final = 1

#: What one run of one row against one peer came to, by the name of the figure.
Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """A server that took part, as the page tells of it."""

    title: str
    durability: str
    #: When a message is answered for where answers wait for the disk; None if they cannot.
    sync: str | None
    one_core: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What the machine itself did with work that is always the same, between two rounds."""

    when: str
    #: Of the CPU, and by the clock on the wall: the difference went to others.
    cpu_ms: float
    wall_ms: float


@dataclass(slots=True)
class Samples:
    """One run of the report."""

    machine: str
    begun: str
    #: What was asked of the run: seconds, rounds, whether it was a quick one.
    options: dict[str, Any]
    entrants: dict[str, Entrant] = field(default_factory=dict)
    #: Peers that could not be had, and why.
    missing: dict[str, str] = field(default_factory=dict)
    #: Titles of rows by name, in the order of the page.
    titles: dict[str, str] = field(default_factory=dict)
    #: By row and peer, one for each round.
    runs: dict[tuple[str, str], list[Figures]] = field(default_factory=dict)
    #: Why a row has no figure for a peer.
    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    calibrations: list[Calibration] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    #: Messages a second at which streams ran.
    stream_rate: float | None = None

    def add(self, row: str, peer: str, figures: Figures) -> None:
        """Keep what a run came to."""
        self.runs.setdefault((row, peer), []).append(dict(figures))

    def median(self, row: str, peer: str, figure: str) -> float | None:
        """The median over the rounds; None where there is none, or one of them failed."""
        if (row, peer) in self.failures:
            return None
        found = [each[figure] for each in self.runs.get((row, peer), ()) if figure in each]
        return statistics.median(found) if found else None

    def spread(self, row: str, peer: str, figure: str) -> float | None:
        """Half the range by the median; None for fewer than two rounds."""
        found = [each[figure] for each in self.runs.get((row, peer), ()) if figure in each]
        middle = statistics.median(found) if len(found) > 1 else 0
        return (max(found) - min(found)) / 2 / middle if middle else None

    def ratio(self, row: str, mine: str, other: str, figure: str) -> float | None:
        """One peer's figure by another's, round by round, and the median of that.

        What disturbs the machine for a while disturbs both sides of a round.
        """
        if {(row, mine), (row, other)} & self.failures.keys():
            return None
        rounds = zip(self.runs.get((row, mine), ()), self.runs.get((row, other), ()), strict=False)
        found = [
            one[figure] / two[figure] for one, two in rounds if figure in one and two.get(figure)
        ]
        return statistics.median(found) if found else None

    def save(self, path: Path) -> None:
        """Write it, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(self._json(), indent=1) + "\n")
        fresh.replace(path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote.

        Raises:
            ValueError: If it is something else.
        """
        found = json.loads(path.read_text())
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ValueError(f"{path} holds no samples of this report")
        return cls(
            machine=found["machine"],
            begun=found["begun"],
            options=found["options"],
            entrants={name: Entrant(**each) for name, each in found["entrants"].items()},
            missing=found["missing"],
            titles=found["titles"],
            runs={(each["row"], each["peer"]): each["samples"] for each in found["runs"]},
            failures={(each["row"], each["peer"]): each["reason"] for each in found["failures"]},
            calibrations=[Calibration(**each) for each in found["calibrations"]],
            remarks=found["remarks"],
            stream_rate=found["stream_rate"],
        )

    def _json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "machine": self.machine,
            "begun": self.begun,
            "options": self.options,
            "stream_rate": self.stream_rate,
            "entrants": {
                name: {
                    "title": each.title,
                    "durability": each.durability,
                    "sync": each.sync,
                    "one_core": each.one_core,
                }
                for name, each in self.entrants.items()
            },
            "missing": self.missing,
            "titles": self.titles,
            "runs": [
                {"row": row, "peer": peer, "samples": samples}
                for (row, peer), samples in self.runs.items()
            ],
            "failures": [
                {"row": row, "peer": peer, "reason": reason}
                for (row, peer), reason in self.failures.items()
            ],
            "calibrations": [
                {"when": each.when, "cpu_ms": each.cpu_ms, "wall_ms": each.wall_ms}
                for each in self.calibrations
            ],
            "remarks": self.remarks,
        }
