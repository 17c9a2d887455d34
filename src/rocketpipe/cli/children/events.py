"""What happens in a cluster, a line for each: for people, or as JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TextIO


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened: to whom, which, and in words."""

    name: str
    what: str
    text: str
    facts: dict[str, Any] = field(default_factory=dict)


#: Is told of each event.
Tell = Callable[[Event], None]


class EventPrinter:
    """Prints events as they come; whoever reads has each at once."""

    def __init__(self, form: str = "text", out: TextIO | None = None) -> None:
        """Take ``text`` or ``json``, and where to write if it is not standard output."""
        self._form = form
        self._out = out or sys.stdout

    def __call__(self, event: Event) -> None:
        """Print one."""
        line = event.text
        if self._form == "json":
            told = {"event": event.what, "name": event.name, **event.facts, "text": event.text}
            line = json.dumps(told, ensure_ascii=False)
        try:
            self._out.write(f"{line}\n")
            self._out.flush()
        except OSError:
            pass  # nobody reads any more, as after `| head`: the cluster goes on


def seconds(duration_ms: int) -> str:
    """A duration as people say it."""
    return f"{duration_ms / 1000:.1f} s"
