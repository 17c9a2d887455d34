"""Log lines about brokers that come and go, of which one that flaps writes a few a minute."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from rocketpipe.clock import Clock

WINDOW_MS: Final = 60_000
LINES_A_WINDOW: Final = 4
_MAX_SUBJECTS: Final = 10_000


@dataclass(slots=True)
class _Window:
    since_ms: int
    lines: int = 0
    held_back: int = 0


class EventLog:
    """Writes events, at most a few a minute about one subject; the next one counts the others."""

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._windows: dict[str, _Window] = {}

    def say(self, level: int, subject: str, event: str, *facts: object) -> None:
        """Log an event about a subject, as ``Logger.log`` does, or hold it back."""
        now_ms = self._clock.monotonic_ms()
        window = self._windows.get(subject)
        if window is None or now_ms - window.since_ms >= WINDOW_MS:
            held_back = window.held_back if window is not None else 0
            self._windows.pop(subject, None)  # so that the order is that of the last windows
            window = self._windows[subject] = _Window(now_ms, held_back=held_back)
            if len(self._windows) > _MAX_SUBJECTS:
                del self._windows[next(iter(self._windows))]
        if window.lines >= LINES_A_WINDOW:
            window.held_back += 1
            return
        window.lines += 1
        if window.held_back:
            self._log.log(level, f"{event} held_back=%d", *facts, window.held_back)
            window.held_back = 0
        else:
            self._log.log(level, event, *facts)
