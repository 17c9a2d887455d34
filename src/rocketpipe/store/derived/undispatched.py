"""What was appended and not dispatched yet, as the appender knows it.

Who has just encoded a record knows all that follows from it, so that the dispatcher need not read
it back. What is kept so is bounded: whatever comes when there is too much of it already is read
from the log in its turn, as everything is after a restart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from rocketpipe.store.log.puts import Appended

#: Records of about so many bytes of the log are kept.
UNDISPATCHED_BYTES: Final = 8 << 20
#: So many records are given at a time, about.
_MANY: Final = 4096


class UndispatchedRecords:
    """Appends in log order: where each starts, where it ends, and its records or their bytes."""

    def __init__(self) -> None:
        self._appends: deque[tuple[int, int, list[Appended] | bytes]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._appends)

    @property
    def is_full(self) -> bool:
        """Whether nothing more is kept now."""
        return self._bytes >= UNDISPATCHED_BYTES

    def add(self, start: int, end: int, placed: Sequence[Sequence[Appended]]) -> None:
        """Keep what an append wrote between two offsets, unless too much is kept already."""
        self._add(start, end, [each for group in placed for each in group])

    def add_bytes(self, start: int, data: bytes, end: int) -> None:
        """The same of whole records as they lie in the log; a filler may be behind them."""
        self._add(start, end, data)

    def _add(self, start: int, end: int, records: list[Appended] | bytes) -> None:
        if not self.is_full:
            assert not self._appends or self._appends[-1][1] <= start
            self._appends.append((start, end, records))
            self._bytes += end - start

    def take(self, start: int, upto: int) -> tuple[int, list[Appended] | bytes] | None:
        """Give what was appended from ``start`` on, and where the last record of it ends.

        ``None`` if those are not here, or end behind ``upto``. They stay, so that they can be asked
        for again, until they are `passed`.
        """
        self.passed(start)
        end = start
        records: list[Appended] = []
        for first, last, those in self._appends:
            if first != end or last > upto or len(records) >= _MANY:
                break
            if isinstance(those, bytes):
                if not records:
                    return last, those
                break
            records += those
            end = last
        return (end, records) if records else None

    def passed(self, offset: int) -> None:
        """Let go of what begins before an offset: all that was, is dispatched."""
        appends = self._appends
        while appends and appends[0][0] < offset:
            first, last, _ = appends.popleft()
            self._bytes -= last - first

    def forget(self) -> None:
        """Have everything read from the log: for a log that is changed by others than appends."""
        self._appends.clear()
        self._bytes = 0

    def next_start(self, at: int, upto: int) -> int:
        """Where something is here again behind ``at``; ``upto`` if nothing is before that."""
        if self._appends and at < self._appends[0][0] < upto:
            return self._appends[0][0]
        return upto
