"""Log lines as JSON, one object each, for whoever collects them.

    {"time":"2026-11-17T04:40:00.123Z","level":"warning","logger":"rocketpipe.broker.…",
     "broker":"broker-a","event":"popped message is a dead letter","topic":"orders","group":"shop",
     "message":"popped message is a dead letter topic=orders group=shop"}

Log calls name an event and then its facts (``topic=%s group=%s``): the facts are fields of their
own, under the names they have there and with the types they were given with.
"""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime
from typing import Any, Final

#: A conversion as log calls have them, with the name of a fact before it, if it has one.
_PLACE: Final = re.compile(
    r"(?:\b([a-z][a-z0-9_]*)=)?%(?:%|[-#0 +]*\d*(?:\.\d+)?[srdiufFeEgGxXoc])"
)
_PLAIN: Final = (str, int, float, bool, type(None))
#: Names that the line has by itself.
_OWN: Final = frozenset(("time", "level", "logger", "broker", "event", "message", "exception"))


class JsonLines(logging.Formatter):
    """Makes each record one line of JSON; ``broker`` is said in each, once it is known."""

    def __init__(self, broker: str | None = None) -> None:
        super().__init__()
        self.broker = broker

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        if self.broker is not None:
            line["broker"] = self.broker
        event, facts = said(record)
        line["event"] = event
        line |= {name if name not in _OWN else f"{name}_": value for name, value in facts.items()}
        line["message"] = record.getMessage()
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, separators=(",", ":"))


def said(record: logging.LogRecord) -> tuple[str, dict[str, Any]]:
    """What happened, and the facts about it, by their names."""
    text, given = str(record.msg), record.args
    if not isinstance(given, tuple):
        return record.getMessage(), {}
    facts: dict[str, Any] = {}
    event_end = len(text)
    values = iter(given)
    for place in _PLACE.finditer(text):
        if place[0].endswith("%%"):
            continue
        value = next(values, None)
        name = place[1]
        if name is None:
            continue
        event_end = min(event_end, place.start())
        facts[name] = value if isinstance(value, _PLAIN) else str(value)
    event = text[:event_end].strip()
    if "%" in event:  # it has values of its own
        before = [place for place in _PLACE.finditer(event) if not place[0].endswith("%%")]
        event = event % tuple(given[: len(before)])
    return event, facts
