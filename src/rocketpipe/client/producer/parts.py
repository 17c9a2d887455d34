"""A message as users say it, part by part, and when it is to show:

deliver_at   a datetime, or milliseconds since 1970
delay        a timedelta, or seconds
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict

from rocketpipe.errors import PropertiesError
from rocketpipe.model.message import Message

_MS: Final = timedelta(milliseconds=1)


class MessageFields(TypedDict, total=False):
    """What a message may have beside topic and body; see ``Message``."""

    #: One tag, by which consumers choose.
    tags: str | None
    #: By these it can be looked up. A plain text is one key.
    keys: Sequence[str]
    #: The user's own.
    properties: Mapping[str, str] | None
    #: The user's own too: 32 bits that RocketMQ carries and never reads.
    flag: int
    #: Whether the send waits until the broker has it as safe as it is set to.
    wait_stored: bool
    #: Later by one of the broker's levels, which count from 1; 0 for none.
    delay_level: int
    #: Later by so many milliseconds.
    delay_ms: int | None
    #: Not before this moment, in milliseconds since 1970.
    deliver_at_ms: int | None
    #: Later by so long, or by so many seconds.
    delay: timedelta | float | None
    #: Not before this moment, or before so many milliseconds since 1970.
    deliver_at: datetime | int | None


def message_of(topic: str | Message, body: bytes, parts: MessageFields) -> Message:
    """Make the message; a whole one is given back, and may have nothing beside it.

    Raises:
        TypeError: If there is something beside a whole message, or that no message has, or a time
            is not told as one.
        InvalidName, PropertiesError: As by ``Message``, or if it is said twice when it shows.
    """
    if isinstance(topic, Message):
        if body or parts:
            raise TypeError("a whole Message has its body and all else already")
        return topic
    given: dict[str, Any] = dict(parts)
    if not MessageFields.__annotations__.keys() >= given.keys():
        raise _unknown(given)
    if given.get("properties", ...) is None:
        del given["properties"]
    deliver_at, delay = given.pop("deliver_at", None), given.pop("delay", None)
    if deliver_at is not None:
        _say_once(given, "deliver_at_ms", _ms_of(deliver_at))
    if delay is not None:
        _say_once(given, "delay_ms", _ms_in(delay))
    return Message(topic, body, **given)


def _unknown(given: Mapping[str, Any]) -> TypeError:
    known = MessageFields.__annotations__
    name = next(name for name in given if name not in known)
    near = difflib.get_close_matches(name, known, 1)
    meant = f"did you mean {near[0]!r}?" if near else f"it may have {', '.join(known)}"
    return TypeError(f"a message has no {name!r}: {meant}")


def _say_once(given: dict[str, Any], name: str, ms: int) -> None:
    if given.get(name) is not None:
        raise PropertiesError(f"property 'DELAY': {name} says once more when it is to show")
    given[name] = ms


def _ms_in(delay: object) -> int:
    if isinstance(delay, timedelta):
        return delay // _MS
    if not isinstance(delay, int | float):
        kind = type(delay).__name__
        raise TypeError(f"delay: {delay!r:.40} is {kind}, not seconds or a timedelta")
    return round(1000 * delay)


def _ms_of(moment: object) -> int:
    if isinstance(moment, int):
        return moment
    if not isinstance(moment, datetime):
        kind = type(moment).__name__
        raise TypeError(f"deliver_at: {moment!r:.40} is {kind}, not a datetime with a zone")
    if moment.tzinfo is None:
        raise PropertiesError(
            "property 'DELAY': deliver_at has no zone; say datetime.now(UTC) + …, or "
            "deliver_at.astimezone() of what is local time"
        )
    return int(moment.timestamp() * 1000)
