"""What a run measured: how many, how fast, how long each took, and what went wrong.

Memory is bounded however long a run is: times are counted in buckets that are each 2% wider than
the one before, so a percentile is right to 2%.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_WIDER: Final = math.log(1.02)
_FIRST_NS: Final = 1_000
_MS: Final = 1_000_000
#: A report names so many kinds of errors; the rest are counted together.
MAX_KINDS: Final = 16
OTHERS: Final = "others"


class Times:
    """How long things took: counted, and asked for by percentile."""

    def __init__(self) -> None:
        self.count = 0
        self.longest_ns = 0
        self._buckets: Counter[int] = Counter()

    def add(self, took_ns: int) -> None:
        """Count one more; what took less than a microsecond counts as that."""
        self.count += 1
        self.longest_ns = max(self.longest_ns, took_ns)
        self._buckets[int(math.log(max(took_ns, _FIRST_NS) / _FIRST_NS) / _WIDER)] += 1

    def below_ms(self, part: float) -> float | None:
        """The time that so large a part took at most, in ms; None if nothing was counted."""
        if not self.count:
            return None
        left = math.ceil(part * self.count)
        for bucket, count in sorted(self._buckets.items()):
            left -= count
            if left <= 0:
                upper_ns = _FIRST_NS * math.exp((bucket + 1) * _WIDER)
                return min(upper_ns, max(self.longest_ns, _FIRST_NS)) / _MS
        raise AssertionError("every time that was counted is in a bucket")


class Errors:
    """What went wrong, counted by kind, with one example of each."""

    def __init__(self) -> None:
        self.count = 0
        self._kinds: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def add(self, error: Exception) -> None:
        """Count one more."""
        self.count += 1
        kind = type(error).__name__
        if kind not in self._kinds and len(self._kinds) >= MAX_KINDS:
            kind = OTHERS
        self._kinds[kind] += 1
        self._examples.setdefault(kind, str(error))

    @property
    def kinds(self) -> Mapping[str, int]:
        """How many of each kind, the most frequent first."""
        return dict(self._kinds.most_common())

    @property
    def examples(self) -> Mapping[str, str]:
        """What the first of each kind said."""
        return dict(self._examples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of a run. Rates count what succeeded."""

    messages: int
    bytes: int
    took_ns: int
    times: Times
    errors: Errors

    @property
    def rate(self) -> float | None:
        """Messages a second; None if it took no time that could be measured."""
        return self.messages * 1e9 / self.took_ns if self.took_ns else None

    @property
    def megabytes(self) -> float | None:
        """Megabytes of bodies a second."""
        return self.bytes * 1e3 / self.took_ns if self.took_ns else None

    def facts(self, timed: str) -> dict[str, Any]:
        """Everything by name, for printing; ``timed`` says what the times are of."""
        return {
            "messages": self.messages,
            "bytes": self.bytes,
            "seconds": round(self.took_ns / 1e9, 3),
            "messages_per_second": _rounded(self.rate, 1),
            "megabytes_per_second": _rounded(self.megabytes, 3),
            f"{timed}_p50_ms": _rounded(self.times.below_ms(0.5), 3),
            f"{timed}_p99_ms": _rounded(self.times.below_ms(0.99), 3),
            f"{timed}_longest_ms": _rounded(self.times.below_ms(1.0), 3),
            "errors": self.errors.count,
            "errors_by_kind": self.errors.kinds,
        }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
