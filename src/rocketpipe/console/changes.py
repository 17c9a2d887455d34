"""The changes that people made by a console: who, what, and what became of it."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

import msgspec

#: So many are kept, the latest.
KEPT: Final = 1000
_MAX_TEXT: Final = 500

log = logging.getLogger(__name__)


class Change(msgspec.Struct, frozen=True):
    """One change, or what was tried."""

    at_ms: int
    who: str
    address: str
    what: str
    outcome: str
    ok: bool


class ChangeLog:
    """Keeps the last changes, and writes each to the log."""

    def __init__(self) -> None:
        self._kept: deque[Change] = deque(maxlen=KEPT)

    def add(self, change: Change) -> None:
        """Keep one."""
        short = msgspec.structs.replace(
            change, what=change.what[:_MAX_TEXT], outcome=change.outcome[:_MAX_TEXT]
        )
        self._kept.append(short)
        log.log(
            logging.INFO if short.ok else logging.WARNING,
            "console change who=%r address=%s what=%r outcome=%r",
            short.who,
            short.address,
            short.what,
            short.outcome,
        )

    def latest(self, limit: int) -> list[Change]:
        """The last ones, the latest first."""
        return list(self._kept)[::-1][:limit]
