"""Records that were found not to be as they were written, and what is done about them.

A damaged record is never given to anybody. ``skip`` says whether who reads goes on behind it, or is
refused until an operator has done something about it; where another replica may bring the record
back, who reads is refused until that is known. Each is told once, loudly, with its place, and
counted.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

#: Of so many it is known that they were told of; more than that is a disk to be thrown away.
_MOST_KNOWN: Final = 10_000


class DamagedRecords:
    """The damaged records that were met since the store was opened, by their place in the log."""

    def __init__(self, *, skip: bool = True) -> None:
        """``skip`` may be changed at any time."""
        self.skip = skip
        #: How many were met.
        self.count = 0
        #: Told of each that is news; it says whether the record may be brought back.
        self.found: Callable[[int], bool] | None = None
        self._known: OrderedDict[int, str] = OrderedDict()
        self._awaited: set[int] = set()

    def __contains__(self, at: int) -> bool:
        return at in self._known

    def skips(self, at: int) -> bool:
        """Whether who reads goes on behind the one at a place, which is known."""
        return self.skip and at in self._known and at not in self._awaited

    def awaits(self, at: int) -> bool:
        """Whether the one at a place may be brought back."""
        return at in self._awaited

    def await_none(self) -> None:
        """Nothing is brought back for now: what ``skip`` says counts for all of them."""
        self._awaited.clear()

    def places(self) -> list[tuple[int, str]]:
        """The last of them: the offset in the log, and what is wrong there."""
        return list(self._known.items())

    def note(self, at: int, reason: str, where: str) -> None:
        """Take note of one, and say so if it is news; ``where`` says who was to be given it."""
        if at in self._known:
            return
        self.count += 1
        self._known[at] = reason
        if len(self._known) > _MOST_KNOWN:
            self._awaited.discard(self._known.popitem(last=False)[0])
        if self.found is not None and self.found(at):
            self._awaited.add(at)
        log.error(
            "record is damaged, and %s log_offset=%d %s reason=%s: `rocketpipe store check` names "
            "its file, and onDamage says whether such records are skipped",
            "passed over" if self.skips(at) else "who reads there is refused",
            at,
            where,
            reason,
        )
