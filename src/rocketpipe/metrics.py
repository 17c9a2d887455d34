"""Measurements as Prometheus reads them.

What is measured is collected when somebody asks, so nothing is kept here, and what is gone is no
longer told of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final, Generic, TypeVar

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

#: So many series of one family are told at most; how many were left out is told too.
MAX_SERIES: Final = 10_000
#: Lines of a piece: some milliseconds of work, if each reads a record.
PIECE_LINES: Final = 50
_LEFT_OUT: Final = "rocketpipe_series_left_out"

MadeT = TypeVar("MadeT")


class Kind(StrEnum):
    """How a number behaves: one that only grows, one that goes up and down, or a distribution."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Series:
    """One number, and what it is about."""

    value: float
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Distribution:
    """How often something was how large: a count for each bound, and one for what is beyond."""

    bounds: Sequence[float]
    counts: Sequence[int]
    total: float
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Family:
    """Numbers of one name; ``help`` says in a sentence what they count, and in which unit.

    A histogram has distributions, every other kind has series.
    """

    name: str
    kind: Kind
    help: str
    series: Iterable[Series | Distribution]


class Kept(Generic[MadeT]):
    """What several families tell of: made when it is first asked for, one by one, and kept.

    A list of ten thousand would be made at once, and others would wait for it.
    """

    def __init__(self, source: Iterator[MadeT]) -> None:
        self._source = source
        self._made: list[MadeT] = []

    def __iter__(self) -> Iterator[MadeT]:
        at = 0
        while True:
            if at == len(self._made):
                try:
                    self._made.append(next(self._source))
                except StopIteration:
                    return
            yield self._made[at]
            at += 1


def single(name: str, kind: Kind, help: str, value: float, **labels: str) -> Family:  # noqa: A002
    """A family with one number."""
    return Family(name, kind, help, (Series(value, labels),))


def render(families: Iterable[Family], max_series: int = MAX_SERIES) -> str:
    """The families as text, in the format that Prometheus scrapes."""
    return "".join(pieces(families, max_series))


def pieces(families: Iterable[Family], max_series: int = MAX_SERIES) -> Iterator[str]:
    """The same text a few lines at a time, for whoever has other things to do in between."""
    left_out: list[Series | Distribution] = []
    for family in families:
        series = iter(family.series)
        lines = _lines(family, islice(series, max_series))
        while some := "".join(f"{line}\n" for line in islice(lines, PIECE_LINES)):
            yield some
        if beyond := sum(1 for _ in series):
            left_out.append(Series(beyond, {"name": family.name}))
    told = Family(
        _LEFT_OUT, Kind.GAUGE, "Series that are not told of, as there are too many.", left_out
    )
    yield "".join(f"{line}\n" for line in _lines(told, left_out))


def _lines(family: Family, series: Iterable[Series | Distribution]) -> Iterator[str]:
    yield f"# HELP {family.name} {family.help}"
    yield f"# TYPE {family.name} {family.kind}"
    for each in series:
        labels = ",".join(f'{name}="{_escaped(text)}"' for name, text in each.labels.items())
        if isinstance(each, Distribution):
            yield from _distribution(family.name, each, labels)
        else:
            yield _line(family.name, labels, each.value)


def _distribution(name: str, found: Distribution, labels: str) -> Iterator[str]:
    """A distribution as Prometheus wants it: each bound counts what is below it too."""
    before = f"{labels}," if labels else ""
    seen = 0
    for bound, count in zip(found.bounds, found.counts, strict=False):
        seen += count
        yield f'{name}_bucket{{{before}le="{float(bound)}"}} {seen}'
    seen += found.counts[-1]
    yield f'{name}_bucket{{{before}le="+Inf"}} {seen}'
    yield _line(f"{name}_sum", labels, found.total)
    yield _line(f"{name}_count", labels, seen)


def _line(name: str, labels: str, value: float) -> str:
    number = int(value) if float(value).is_integer() else value
    return f"{name}{{{labels}}} {number}" if labels else f"{name} {number}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
