"""Blocking push consumers: their handlers, and what can be said to them in which state."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rocketpipe.blocking import PushConsumer
from rocketpipe.errors import FilterError, InvalidName, SessionClosed

NOWHERE = "127.0.0.1:1"


def test_handlers_are_checked_when_they_are_marked() -> None:
    consumer = PushConsumer(NOWHERE, group="g")

    @consumer.on("orders", tags="paid || refunded")
    def bill(message: Any) -> None: ...

    assert callable(bill)
    with pytest.raises(ValueError, match="has a handler already"):
        consumer.subscribe("orders", bill)
    with pytest.raises(FilterError):
        consumer.on("others", sql="price >")(bill)
    with pytest.raises(InvalidName):
        consumer.on("a b")(bill)
    with pytest.raises(TypeError, match="is no handler"):
        consumer.on("others")(5)


def test_a_consumer_without_handlers_does_not_open() -> None:
    consumer = PushConsumer(NOWHERE, group="g")
    with pytest.raises(ValueError, match="has no handler"):
        consumer.__enter__()
    with pytest.raises(SessionClosed, match="the consumer"):
        consumer.closed()


def test_a_consumer_waits_for_servers_and_for_who_stops_it() -> None:
    consumer = PushConsumer(NOWHERE, group="g")
    consumer.subscribe("orders", print)
    with consumer:
        with pytest.raises(ValueError, match="runs already"):
            consumer.subscribe("others", print)
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(consumer.closed)
            consumer.stop()
            waiting.result(30)
        consumer.close()


def test_a_consumer_that_does_not_run_may_be_told_to_rest_or_stop() -> None:
    consumer = PushConsumer(NOWHERE, group="g")
    consumer.suspend()
    consumer.resume()
    consumer.stop()
    assert consumer.queues == frozenset()
    assert consumer.group == "g"


def test_its_own_session_lives_with_it() -> None:
    consumer = PushConsumer(NOWHERE, group="g", broadcast=True)
    assert "DEFAULT" in consumer.session.client_id
    with pytest.raises(SessionClosed, match="the consumer"):
        consumer.session.beat()
    with consumer.session as session:
        session.beat()
    assert not consumer.session.is_open
