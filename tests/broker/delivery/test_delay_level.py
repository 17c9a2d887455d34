"""A level waits by the clock that its messages were stored by; test_delay has it deliver."""

from __future__ import annotations

from rocketpipe.broker.delivery.delay_level import BATCH, DelayLevel
from rocketpipe.model.offsets import LogOffset, QueueOffset

WALL_MS = 1_700_000_000_000


def level(at: int = 0, end: int = 0) -> DelayLevel:
    return DelayLevel(3, 10_000, QueueOffset(at), WALL_MS, QueueOffset(end))


def test_a_message_waits_until_its_time_by_the_clock_that_it_was_stored_by() -> None:
    waits = level()
    waits.look(QueueOffset(1), WALL_MS, 0)
    waits.due_ms = WALL_MS + 10_000
    assert waits.waits(9_999)
    assert not waits.waits(10_000)
    assert waits.queue_id == 2


def test_what_was_stored_before_the_clock_was_set_is_not_read_with_what_came_after() -> None:
    waits = level(at=2)
    waits.look(QueueOffset(10), WALL_MS + 1000, 1000)
    assert waits.most() == BATCH
    waits.look(QueueOffset(12), WALL_MS + 3_600_000, 2000)
    assert waits.most() == 8
    waits.due_ms = WALL_MS + 11_000
    assert waits.waits(10_999)
    assert not waits.waits(11_000)
    waits.at = QueueOffset(12)
    waits.look(QueueOffset(12), WALL_MS + 3_600_000, 2000)
    assert waits.apart_ms == WALL_MS + 3_598_000


def test_of_the_places_that_are_not_durable_the_first_and_the_last_are_known() -> None:
    reads = level()
    for place in (5, 6, 7):
        reads.at = QueueOffset(place)
        reads.reached(LogOffset(100 * place))
    assert reads.unsaved == (500, 5)
    assert reads.unsaved_later == (700, 7)
