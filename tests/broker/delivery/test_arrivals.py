"""Tests of who is told of new messages."""

from __future__ import annotations

from rocketpipe.broker.delivery.arrivals import Arrivals
from rocketpipe.model.offsets import QueueOffset


def test_all_who_listen_are_told_in_the_order_of_asking() -> None:
    told: list[tuple[str, int]] = []
    arrivals = Arrivals()
    arrivals.listen(
        lambda topic, queue_id, offset, code, stored_ms, text: told.append(("a", offset))
    )
    arrivals.listen(
        lambda topic, queue_id, offset, code, stored_ms, text: told.append(("b", offset))
    )
    arrivals("t", 0, QueueOffset(7), 0, 0, b"")
    assert told == [("a", 7), ("b", 7)]
