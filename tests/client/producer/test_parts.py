"""A message is made of its parts, whichever way its moment is said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from rocketpipe.client.producer.parts import MessageFields, message_of
from rocketpipe.errors import PropertiesError
from rocketpipe.model.message import Message

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
NOON_MS = 1_893_499_200_000


@pytest.mark.parametrize(
    ("parts", "delay_ms", "deliver_at_ms"),
    [
        ({"delay": 1.5}, 1500, None),
        ({"delay": 3}, 3000, None),
        ({"delay": timedelta(minutes=1)}, 60_000, None),
        ({"delay_ms": 7}, 7, None),
        ({"deliver_at": NOON}, None, NOON_MS),
        ({"deliver_at": NOON.astimezone(timezone(timedelta(hours=5)))}, None, NOON_MS),
        ({"deliver_at": 8}, None, 8),
        ({"deliver_at_ms": 9}, None, 9),
        ({"deliver_at": None, "delay": None}, None, None),
    ],
)
def test_a_moment_is_said_in_many_ways(
    parts: MessageFields, delay_ms: int | None, deliver_at_ms: int | None
) -> None:
    message = message_of("t", b"x", parts)
    assert (message.delay_ms, message.deliver_at_ms) == (delay_ms, deliver_at_ms)


@pytest.mark.parametrize(
    "parts",
    [
        {"delay": 1, "deliver_at": 5},
        {"delay": 1, "delay_ms": 5},
        {"deliver_at": 1, "deliver_at_ms": 5},
        {"delay": 1, "delay_level": 3},
        {"delay": -1},
        {"deliver_at": datetime(2030, 1, 1)},
    ],
)
def test_a_moment_that_is_said_twice_or_is_none_is_refused(parts: MessageFields) -> None:
    with pytest.raises(PropertiesError, match="DELAY"):
        message_of("t", b"x", parts)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"delay": "5s"}, "delay: '5s' is str, not seconds or a timedelta"),
        ({"deliver_at": "noon"}, "deliver_at: 'noon' is str, not a datetime with a zone"),
    ],
)
def test_a_time_that_is_told_as_something_else_is_refused(parts: Any, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        message_of("orders", b"x", parts)


def test_a_whole_message_has_nothing_beside_it() -> None:
    whole = Message("t", b"x")
    assert message_of(whole, b"", {}) is whole
    with pytest.raises(TypeError):
        message_of(whole, b"y", {})
    with pytest.raises(TypeError):
        message_of(whole, b"", {"tags": "a"})


def test_no_properties_are_none() -> None:
    assert message_of("t", b"x", {"properties": None}).properties == {}


@pytest.mark.parametrize(
    ("name", "why"), [("tag", "did you mean 'tags'"), ("colour", "it may have tags, keys")]
)
def test_what_no_message_has_is_named_with_what_was_meant(name: str, why: str) -> None:
    parts: Any = {name: "x"}
    with pytest.raises(TypeError, match=why):
        message_of("t", b"x", parts)
