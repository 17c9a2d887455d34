"""Figures over the last hour, a point every few seconds, for the charts; for more is Prometheus."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

#: A point is taken so often, and so many are kept: an hour of them.
EVERY_MS: Final = 5000
POINTS: Final = 720
#: So many series are kept; the one that was looked at longest ago goes first.
MAX_SERIES: Final = 500


class Rings:
    """Series of points by name; a point that is not known is None."""

    def __init__(self) -> None:
        self._series: dict[str, deque[tuple[int, float | None]]] = {}

    def add(self, name: str, at_ms: int, value: float | None) -> None:
        """Add a point to a series, which begins with it."""
        series = self._series.get(name)
        if series is None:
            while len(self._series) >= MAX_SERIES:
                del self._series[next(iter(self._series))]
            series = self._series[name] = deque(maxlen=POINTS)
        series.append((at_ms, value))

    def watch(self, name: str) -> None:
        """Have a series, and keep it for longer than those that nobody looks at."""
        series = self._series.pop(name, None)
        while series is None and len(self._series) >= MAX_SERIES:
            del self._series[next(iter(self._series))]
        self._series[name] = series if series is not None else deque(maxlen=POINTS)

    def names(self, prefix: str) -> list[str]:
        """The series whose names begin so, without that."""
        return [name[len(prefix) :] for name in self._series if name.startswith(prefix)]

    def points(self, name: str) -> dict[str, Any]:
        """A series as charts take it: the times, and the values."""
        series = self._series.get(name, ())
        return {"times": [at for at, _ in series], "values": [value for _, value in series]}

    def __len__(self) -> int:
        return len(self._series)
