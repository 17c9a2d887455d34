"""Times, durations, counts and places in queues, as people type them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from rocketpipe.model.group import DELAYS_MS

_UNITS_MS: Final[Mapping[str, int]] = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def duration_ms(text: str) -> int:
    """Read ``500ms``, ``30s``, ``5m``, ``2h`` or ``1d`` for a flag.

    Raises:
        ArgumentTypeError: If it is none.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no duration: write a number and ms, s, m, h or d, such as 30s"
        )
    return round(float(found[1]) * _UNITS_MS[found[2]])


def count(text: str) -> int:
    """Read how many, at least one, for a flag.

    Raises:
        ArgumentTypeError: If it is less, or no whole number.
    """
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 31):
        raise argparse.ArgumentTypeError(f"{text!r}: a whole number of 1 or more is expected")
    return int(text)


def port(text: str) -> int:
    """Read a TCP port for a flag; 0 is any that is free.

    Raises:
        ArgumentTypeError: If it is none.
    """
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number from 0 to 65535 is")
    return int(text)


def delay_level(text: str) -> int:
    """Read one of RocketMQ's levels of delay for a flag.

    Raises:
        ArgumentTypeError: If there is no such level.
    """
    most = len(DELAYS_MS)
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= most):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no level: they go from 1 (a second) to {most} (two hours); --delay and "
            "--at take any time"
        )
    return int(text)


def time_ms(text: str, now_ms: int) -> int:
    """Read a moment: ISO 8601, milliseconds since 1970, ``now``, or an age such as ``2h ago``.

    A time without a zone is local time.

    Raises:
        ValueError: If it is none; the text says what would be one.
    """
    plain = text.strip()
    if plain == "now":
        return now_ms
    if plain.endswith(" ago"):
        found = _DURATION.fullmatch(plain.removesuffix(" ago").strip())
        if found is not None:
            return now_ms - round(float(found[1]) * _UNITS_MS[found[2]])
    if plain.isascii() and plain.isdigit() and len(plain) >= 12:
        return int(plain)
    try:
        return round(datetime.fromisoformat(plain).timestamp() * 1000)
    except ValueError:
        raise ValueError(
            f"{text!r} is no time: write 2024-05-01T12:00:00Z, milliseconds since 1970, "
            "now, or an age such as '2h ago'"
        ) from None


class Where(StrEnum):
    """Ways to name a place in a queue."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIME = "time"
    OFFSET = "offset"
    BY = "by"


@dataclass(frozen=True, slots=True)
class Place:
    """A place in every queue: an end, a time, one offset, or so many on from where a group is."""

    where: Where
    number: int = 0

    @classmethod
    def parse(cls, text: str, now_ms: int) -> Place:
        """Read ``earliest``, ``latest``, ``now``, a time, an offset, ``+N`` or ``-N``.

        Raises:
            ValueError: If it is none; the text says what would be one.
        """
        plain = text.strip()
        if plain in (Where.EARLIEST, Where.LATEST):
            return cls(Where(plain))
        if re.fullmatch(r"[+-]\d{1,18}", plain):
            return cls(Where.BY, int(plain))
        if plain.isascii() and plain.isdigit() and len(plain) < 12:
            return cls(Where.OFFSET, int(plain))
        try:
            return cls(Where.TIME, time_ms(plain, now_ms))
        except ValueError as error:
            raise ValueError(
                f"{error}; a place may also be earliest, latest, an offset, +N or -N"
            ) from None
