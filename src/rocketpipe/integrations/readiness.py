"""Whether a program can do its work with brokers now, for probes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: How long a probe waits for brokers that do not answer.
PROBE_MS: Final = 2000


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether a program is ready; if not, why, in a line."""

    is_ready: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.is_ready

    @classmethod
    def of(cls, answering: list[str]) -> Readiness:
        """Of a program with these brokers."""
        return cls(True) if answering else cls(False, "no broker answers")
