"""How much of the log goes to one follower, and how much may."""

from __future__ import annotations


class Traffic:
    """Bytes by ticks, of which each has its share, and by seconds, for those who watch."""

    def __init__(self, now_ms: int, *, most_per_second: int, tick_ms: int) -> None:
        self.bytes_per_second = 0
        self._share = max(1, most_per_second * tick_ms // 1000)
        self._tick_bytes = 0
        self._second_bytes = 0
        self._second_ms = now_ms

    @property
    def left(self) -> int:
        """What is left of this tick's share."""
        return self._share - self._tick_bytes

    def sent(self, size: int) -> None:
        """Count what was sent, whether it had to keep to the share or not."""
        self._tick_bytes += size
        self._second_bytes += size

    def tick(self, now_ms: int) -> None:
        """Begin another tick."""
        self._tick_bytes = 0
        passed_ms = now_ms - self._second_ms
        if passed_ms >= 1000:
            self.bytes_per_second = self._second_bytes * 1000 // passed_ms
            self._second_bytes, self._second_ms = 0, now_ms
