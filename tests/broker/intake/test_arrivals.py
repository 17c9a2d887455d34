"""Tests of who is told of new messages."""

from __future__ import annotations

from typing import Any

import pytest

from rocketpipe.broker.intake.arrivals import Arrivals
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
    arrivals.tell([("t", 0, QueueOffset(7), 0, 0, b"")])
    assert told == [("a", 7), ("b", 7)]


def told_of(arrivals: Arrivals, **how: Any) -> list[tuple[str, int]]:
    told: list[tuple[str, int]] = []
    arrivals.listen(lambda topic, queue_id, offset, *rest: told.append((topic, offset)), **how)
    arrivals.tell(
        [("t", 0, QueueOffset(7), 0, 0, b""), ("u", 0, QueueOffset(0), 0, 0, b"")],
    )
    return told


def test_who_waits_for_one_topic_hears_of_no_other() -> None:
    assert told_of(Arrivals(), topic="u") == [("u", 0)]


def test_nobody_is_told_where_nobody_waits() -> None:
    assert told_of(Arrivals(), while_=lambda: 0) == []
    assert told_of(Arrivals(), while_=lambda: 1) == [("t", 7), ("u", 0)]


def test_a_listener_that_fails_keeps_nothing_from_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*arrival: object) -> None:
        raise RuntimeError("no")

    arrivals = Arrivals()
    arrivals.listen(fail)
    assert told_of(arrivals) == [("t", 7), ("u", 0)]
    assert [record.getMessage() for record in caplog.records] == [
        "listener failed topic=t queue_id=0",
        "listener failed topic=u queue_id=0",
    ]


def test_the_topics_that_somebody_waits_for_are_known() -> None:
    arrivals = Arrivals()
    waiting: list[int] = []
    assert arrivals.wanted == []
    arrivals.listen(lambda *_: None, topic="u")
    arrivals.listen(lambda *_: None, while_=waiting.__len__)
    assert arrivals.wanted == ["u"]
    waiting.append(1)
    assert arrivals.wanted is None
