"""A bar on the terminal for what takes time, gone when it is done; elsewhere nothing."""

from __future__ import annotations

import sys
import time
from typing import Final, Self, TextIO

_WIDTH: Final = 30
_EVERY_S: Final = 0.1


class Progress:
    """``with Progress("replaying", total) as progress: progress.advance()``."""

    def __init__(self, label: str, total: int | None = None, out: TextIO | None = None) -> None:
        """Take what is being done, and how much of it there is if that is known."""
        self._label = label
        self._total = total
        self._done = 0
        self._out = out or sys.stderr
        self._shown = self._out.isatty()
        self._next_s = 0.0

    def advance(self, count: int = 1) -> None:
        """Say that so much more is done."""
        self._done += count
        if self._shown and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _EVERY_S
            self._draw()

    def _draw(self) -> None:
        if self._total:
            part = min(self._done / self._total, 1)
            bar = "█" * round(part * _WIDTH)
            text = f"{self._label} {bar:<{_WIDTH}} {self._done:,} of {self._total:,}"
        else:
            text = f"{self._label} {self._done:,}"
        self._out.write(f"\r{text}\x1b[K")
        self._out.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._shown:
            self._out.write("\r\x1b[K")
            self._out.flush()
