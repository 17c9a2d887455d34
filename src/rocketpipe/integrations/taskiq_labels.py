"""What the labels of a task say about how it is to be delivered.

queue        which of the broker's queues it goes to
priority     0 and up: a greater one is taken first
order_key    tasks with the same key run one after the other, as they were sent
delay        so many seconds from now
deliver_at   a datetime with a zone, or milliseconds since 1970

Taskiq makes texts of labels, so these are read from texts too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

_NONE: Final = (None, "None")
#: The last moment that a datetime may be.
_LAST_MS: Final = 253_402_300_799_999


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """How one task is delivered."""

    queue: str | None = None
    priority: int = 0
    order_key: str | None = None
    delay_ms: int | None = None
    deliver_at_ms: int | None = None

    @classmethod
    def of(cls, labels: Mapping[str, Any]) -> TaskOptions:
        """Read the labels of a task; those of others are left alone.

        Raises:
            ValueError: If one says what cannot be; the message names it, and what would do.
        """
        given = {name: value for name, value in labels.items() if value not in _NONE}
        options = cls(
            queue=_text("queue", given.get("queue")),
            priority=_whole("priority", given.get("priority", 0)),
            order_key=_text("order_key", given.get("order_key")),
            delay_ms=None if "delay" not in given else _milliseconds(given["delay"]),
            deliver_at_ms=None if "deliver_at" not in given else _moment(given["deliver_at"]),
        )
        if options.order_key is not None and options.priority:
            raise ValueError(
                "label 'priority': a task with an 'order_key' runs when those before it are done, "
                "so it has no priority; give one of the two"
            )
        return options

    def due_ms(self, now_ms: int) -> int | None:
        """When it may run; None for at once.

        A retry of taskiq's has a delay beside the moment of the first attempt: the later counts.
        """
        due_ms = max(self.deliver_at_ms or 0, now_ms + (self.delay_ms or 0))
        return due_ms if due_ms > now_ms else None


def _text(name: str, value: object) -> str | None:
    if value is None:
        return None
    text = str(value)
    if not text.strip():
        raise ValueError(f"label {name!r}: it is blank; leave it out, or give it a name")
    return text


def _whole(name: str, value: object) -> int:
    try:
        number = int(str(value))
    except ValueError:
        raise ValueError(f"label {name!r}: {value!r:.40} is no whole number") from None
    if number < 0:
        raise ValueError(f"label {name!r}: {number} is negative; the least is 0")
    return number


def _milliseconds(value: object) -> int:
    try:
        seconds = float(str(value))
    except ValueError:
        raise ValueError(
            f"label 'delay': {value!r:.40} is no number of seconds; of a timedelta give its "
            "total_seconds()"
        ) from None
    if not 0 <= seconds < _LAST_MS / 1000 or math.isnan(seconds):
        raise ValueError(f"label 'delay': {value!r:.40} is no time to wait; give 0 or more seconds")
    return round(seconds * 1000)


def _moment(value: object) -> int:
    text = str(value)
    if text.removeprefix("-").isdecimal():
        if not 0 <= int(text) <= _LAST_MS:
            raise ValueError(f"label 'deliver_at': {text:.40} is no milliseconds since 1970")
        return int(text)
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"label 'deliver_at': {text!r:.40} is no moment; give a datetime with a zone, or "
            "milliseconds since 1970"
        ) from None
    if moment.tzinfo is None:
        raise ValueError(
            f"label 'deliver_at': {text!r:.40} has no zone; say datetime.now(UTC) + …, or "
            "deliver_at.astimezone() of what is local time"
        )
    return int(moment.timestamp() * 1000)
