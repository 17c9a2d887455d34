"""Blocking simple consumers: what they refuse, and that they are used inside ``with``."""

from __future__ import annotations

import pytest

from rocketpipe.blocking import SimpleConsumer
from rocketpipe.errors import ConnectionLost, InvalidName, SessionClosed

NOWHERE = "127.0.0.1:1"


def test_topics_that_nobody_serves_are_refused() -> None:
    with SimpleConsumer(NOWHERE, group="g") as consumer:
        assert consumer.group == "g"
        with pytest.raises(ConnectionLost):
            consumer.subscribe("orders")
        with pytest.raises(ValueError, match="subscribe to a topic"):
            consumer.receive(wait_ms=1)
        with pytest.raises(InvalidName):
            consumer.subscribe("a b")


def test_it_is_used_inside_with() -> None:
    consumer = SimpleConsumer(NOWHERE, group="g")
    with pytest.raises(SessionClosed, match="use it inside its 'with'"):
        consumer.receive()
