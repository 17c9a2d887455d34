"""What cannot be read for now."""

from __future__ import annotations

from tests.pipeline.support.fake_offsets import FakePlaces, queue

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.pipeline.planning.held_up import held_up


def test_brokers_that_are_away_and_queues_that_were_taken_with_messages_in_them() -> None:
    places = FakePlaces({"orders/a/0": (0, 5), "orders/a/1": (0, 9), "orders/b/0": (0, 5)})
    places.silent.add("b")
    known = {queue(name): QueueOffset(5) for name in ("orders/a/0", "orders/a/1", "orders/c/0")}
    readable = [queue("orders/a/0"), queue("orders/b/0")]
    away, hidden = held_up(places, known, readable, places.ends(readable))
    assert away == "broker 'b' does not answer: its queues wait for it"
    assert "queue 1 of broker 'a' cannot be read any more, and 4 of its messages were not" in hidden
    places.held[queue("orders/a/1")] = (0, 5)  # all of it was read before it was taken
    places.silent.clear()
    assert held_up(places, known, readable, places.ends(readable)) == []
