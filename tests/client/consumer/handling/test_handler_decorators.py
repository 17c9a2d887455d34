"""Handlers are marked, and stay what they were."""

from __future__ import annotations

from typing import Any

import pytest

from rocketpipe.client.consumer.handling.handler_decorators import HandlerDecorators


class Notes(HandlerDecorators):
    """Notes what it is to subscribe to."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, object, dict[str, Any]]] = []

    def subscribe(self, topic: str, target: object, **more: Any) -> None:
        self.taken.append((topic, target, more))


def test_what_is_marked_is_subscribed_and_given_back() -> None:
    notes = Notes()

    @notes.on("orders", tags="a", batch=3)
    def bill(message: object) -> str:
        return "billed"

    assert bill(None) == "billed"
    assert notes.taken == [("orders", bill, {"tags": "a", "sql": None, "batch": 3})]


def test_a_mark_without_its_topic_is_refused() -> None:
    misused: Any = Notes().on
    with pytest.raises(TypeError, match=r"mark handlers with @consumer\.on"):
        misused(print)
