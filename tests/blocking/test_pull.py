"""Blocking pull consumers: what they refuse, and that waiting ends."""

from __future__ import annotations

import pytest

from rocketpipe.blocking import MessageQueue, PullConsumer
from rocketpipe.errors import ConnectionLost, InvalidName, QueueNotOurs, SessionClosed

NOWHERE = "127.0.0.1:1"
QUEUE = MessageQueue(topic="orders", broker_name="broker-a", queue_id=0)


def test_nothing_to_read_is_an_empty_list_when_the_time_is_up() -> None:
    with PullConsumer(NOWHERE, group="g") as consumer:
        assert consumer.poll(timeout_ms=1) == []
        assert consumer.queues == frozenset()
        assert consumer.positions() == {}


def test_topics_that_nobody_serves_and_queues_of_others_are_refused() -> None:
    with PullConsumer(NOWHERE, group="g") as consumer:
        with pytest.raises(ConnectionLost):
            consumer.subscribe("orders")
        with pytest.raises(InvalidName):
            consumer.queues_of("a b")
        with pytest.raises(QueueNotOurs):
            consumer.position(QUEUE)
        with pytest.raises(QueueNotOurs):
            consumer.pause(QUEUE)
        with pytest.raises(QueueNotOurs):
            consumer.seek(QUEUE, 5)


def test_a_consumer_that_is_closed_ends_its_iteration_with_an_error() -> None:
    consumer = PullConsumer(NOWHERE, group="g")
    assert consumer.group == "g"
    with pytest.raises(SessionClosed, match="the consumer is not open: use it inside its 'with'"):
        next(iter(consumer))
