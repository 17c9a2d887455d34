"""Who was seen how often: what each stage of the demo is judged by."""

from __future__ import annotations

from collections.abc import Iterable

_MOST = 255


class Tally:
    """Counts flights by their ids, from 0 up to ``total``; each exactly, and cheaply."""

    def __init__(self, total: int) -> None:
        self._times = bytearray(total)
        #: How many were seen at all, and how many sights were beyond the first.
        self.found = 0
        self.again = 0
        #: Ids that nobody sent.
        self.strange = 0

    def add(self, number: int) -> bool:
        """Note a sight of a flight; whether it was the first."""
        if not 0 <= number < len(self._times):
            self.strange += 1
            return False
        times = self._times[number]
        if times:
            self.again += 1
            self._times[number] = min(times + 1, _MOST)
            return False
        self._times[number] = 1
        self.found += 1
        return True

    def __contains__(self, number: int) -> bool:
        return bool(self._times[number])

    def missing(self, wanted: Iterable[int]) -> int:
        """How many of these were never seen."""
        return sum(not self._times[number] for number in wanted)

    def twice(self) -> int:
        """How many flights were seen more than once."""
        return sum(times > 1 for times in self._times)
