"""How long something takes, as people write it: ``250ms``, ``30s``, ``16m``, ``1.5h``, ``1d``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

UNITS_MS: Final[Mapping[str, int]] = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_DURATION: Final = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*(ms|s|m|h|d)\s*", re.ASCII)


def read_duration(text: str) -> int:
    """Give a duration in milliseconds.

    Raises:
        ValueError: If it is none; the text says what would be one.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no duration: write one as 250ms, 10s, 16m, 2h or 1d")
    return round(float(found[1]) * UNITS_MS[found[2]])
