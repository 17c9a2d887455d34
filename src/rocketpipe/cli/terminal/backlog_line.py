"""What a broker still has that nobody has read, on one line of the terminal.

On a terminal the line is written over; elsewhere it is a line of its own, when it has changed and
some time has passed.
"""

from __future__ import annotations

import shutil
import sys
import time
from typing import Final, Self, TextIO

from rocketpipe.client.admin.draining import Backlog, GroupBacklog

_ELSEWHERE_EVERY_S: Final = 10.0
_MOST_NAMED: Final = 3


class BacklogLine:
    """``with BacklogLine("broker-a-1") as line: line.show(backlog)``."""

    def __init__(self, broker: str, out: TextIO | None = None) -> None:
        self._broker = broker
        self._out = out or sys.stderr
        self._is_terminal = self._out.isatty()
        self._said = ""
        self._next_s = 0.0

    def show(self, found: Backlog | None) -> None:
        """Say what is left; None if the broker did not answer."""
        text = self.text(found)
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            self._out.write(f"\r{text[:width]}\x1b[K")
        elif text == self._said or time.monotonic() < self._next_s:
            return
        else:
            self._out.write(f"{text}\n")
            self._said, self._next_s = text, time.monotonic() + _ELSEWHERE_EVERY_S
        self._out.flush()

    def text(self, found: Backlog | None) -> str:
        """What is left, in words."""
        if found is None:
            return f"{self._broker} does not answer: waiting for it to start again"
        if found.is_consumed:
            return f"{self._broker}: everything was read"
        by_size = sorted(found.groups, key=lambda one: -one.messages)
        said = [_words(one) for one in by_size[:_MOST_NAMED]]
        if len(by_size) > _MOST_NAMED:
            rest = sum(one.messages for one in by_size[_MOST_NAMED:])
            said.append(f"{len(by_size) - _MOST_NAMED} more with {rest:,}")
        said += [f"{what} {count:,}" for what, count in found.waiting.items()]
        if not said:
            return f"{self._broker}: messages still come in"
        return f"{self._broker}: {found.messages:,} left: {', '.join(said)}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._is_terminal:
            self._out.write("\r\x1b[K")
            self._out.flush()


def _words(one: GroupBacklog) -> str:
    members = "1 member" if one.members == 1 else f"{one.members or 'no'} members"
    return f"{one.group} of {one.topic} {one.messages:,} ({members})"
