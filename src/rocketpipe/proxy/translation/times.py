"""Moments and durations of protobuf as whole milliseconds, whatever a peer wrote into them.

Protobuf's own conversions raise at what is out of their range; a peer may send anything, and what
is stored may have come by another protocol.
"""

from __future__ import annotations

from typing import Any, Final

_SECOND_MS: Final = 1000
_MS_NANOS: Final = 1_000_000


def ms_of(told: Any) -> int:
    """A Timestamp or a Duration in milliseconds, rounded down."""
    ms: int = told.seconds * _SECOND_MS + told.nanos // _MS_NANOS
    return ms


def set_ms(told: Any, ms: int) -> None:
    """Have a Timestamp or a Duration say so many milliseconds."""
    told.seconds, rest_ms = divmod(ms, _SECOND_MS)
    told.nanos = rest_ms * _MS_NANOS
