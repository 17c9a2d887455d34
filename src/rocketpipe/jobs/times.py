"""Times in plots: how wide a point is, and what is written below it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

_DAY_S: Final = 86_400
#: How long a point of a plot over time may be, in seconds.
_WIDTHS: Final = (1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 3 * 3_600, 6 * 3_600, _DAY_S)
#: A plot has about so many points.
_POINTS: Final = 120


def bucket_seconds(span_s: float) -> int:
    """How long each point of a plot over so many seconds is."""
    wanted = span_s / _POINTS
    days = _DAY_S * (int(wanted // _DAY_S) + 1)
    return next((width for width in _WIDTHS if width >= wanted), days)


def moment_after(begin: datetime | None) -> Callable[[float], str]:
    """What is written for so many seconds after a moment; for None, a duration."""
    if begin is None:
        return _duration
    start = begin.timestamp()

    def written(at_s: float) -> str:
        moment = datetime.fromtimestamp(start + at_s, UTC)
        is_midnight = (moment.hour, moment.minute, moment.second) == (0, 0, 0)
        if is_midnight:
            return moment.strftime("%d %b")
        return moment.strftime("%H:%M:%S" if moment.second else "%H:%M")

    return written


def _duration(seconds: float) -> str:
    for size, unit in ((_DAY_S, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
