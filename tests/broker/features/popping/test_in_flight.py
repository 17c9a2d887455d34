"""What is in flight falls due once, and is found by its receipt until then."""

from __future__ import annotations

from itertools import count

import msgspec

from rocketpipe.broker.features.popping.check_points import CheckPoint, check_point
from rocketpipe.broker.features.popping.in_flight import Acked, InFlight
from rocketpipe.model.offsets import QueueOffset


def point(start: int, pop_ms: int = 1000, invisible_ms: int = 500, size: int = 2) -> CheckPoint:
    return check_point(
        topic="t",
        group="g",
        queue_id=0,
        start=QueueOffset(start),
        offsets=[QueueOffset(start + each) for each in range(size)],
        pop_ms=pop_ms,
        invisible_ms=invisible_ms,
        broker="b",
    )


def test_a_flight_is_finished_when_each_message_was_acknowledged() -> None:
    flights = InFlight()
    flight = flights.add(point(5).key, point(5), 0, 0)
    flight.mark(6)
    assert flight.open_offsets == [5]
    assert not flight.is_finished
    flight.mark(5)
    assert flight.is_finished
    flights.finish(point(5).key)
    assert flights.get(point(5).key) is None
    assert flights.was_finished(point(5).key)


def test_messages_with_others_between_them_are_told_apart() -> None:
    made = msgspec.structs.replace(point(5, size=4), diffs=(0, 2, 3, 9))
    flight = InFlight().add(made.key, made, 0, 0)
    assert [offset for offset in range(20) if flight.holds(offset)] == [5, 7, 8, 14]
    for number, offset in enumerate((14, 7, 5, 8), 1):
        flight.mark(offset)
        assert flight.acked.bit_count() == number
        assert flight.is_acked(offset)
    assert flight.is_finished
    flight.unmark(8)
    flight.show(8)
    assert flight.open_offsets == [8]
    assert [offset for offset in (5, 7, 8, 14) if flight.is_shown(offset)] == [8]
    flight.unshow(8)
    assert flight.shown == 0


def test_what_is_acknowledged_and_not_written_down_is_taken_back() -> None:
    flight = InFlight().add(point(5).key, point(5, size=3), 0, 0)
    flight.mark(5)
    acked = Acked(flight, [QueueOffset(6), QueueOffset(5), QueueOffset(6)])
    assert acked.offsets == [6, 5]
    assert flight.open_offsets == [7]
    acked.take_back()
    assert flight.open_offsets == [6, 7]


def test_those_due_come_in_the_order_of_their_times_and_once() -> None:
    flights = InFlight()
    for start, invisible_ms in ((1, 900), (11, 100), (21, 500)):
        made = point(start, invisible_ms=invisible_ms)
        flights.add(made.key, made, 0, start)
    assert flights.next_due_ms == 1100
    assert [key[3] for key, _ in flights.due(1600)] == [11, 21]
    assert list(flights.due(1600)) == []
    assert len(flights) == 3  # whoever deals with them forgets them


def test_what_was_put_off_falls_due_later() -> None:
    flights = InFlight()
    flights.add(point(1).key, point(1), 0, 0)
    ((key, _),) = flights.due(1500)
    flights.put_off(key, 3000)
    assert list(flights.due(2999)) == []
    assert [key for key, _ in flights.due(3000)] == [point(1).key]


def test_a_check_point_that_is_written_again_takes_the_place_of_the_first() -> None:
    flights = InFlight()
    flights.add(point(1).key, point(1), 0, 4).mark(1)
    other = point(11)
    flights.add(other.key, other, 0, 5)
    again = flights.add(point(1).key, point(1), 0, 9)
    assert again.open_offsets == [2], "what was acknowledged stays so"
    oldest = flights.oldest(0)
    assert oldest is not None
    assert oldest.revive_offset == 5
    assert flights.add(point(1).key, point(1), 0, 4) is again, "an old one changes nothing"


def test_nothing_grows_without_end() -> None:
    flights = InFlight(limit=2, max_finished=3)
    for number in range(5000):
        made = point(10 * number)
        flights.add(made.key, made, 0, number)
        assert not flights.is_full("g")
        flights.finish(made.key)
    assert len(flights) == 0
    assert not flights.was_finished(point(0).key)
    assert flights.was_finished(point(10 * 4999).key)
    assert len(flights._due) < 2000


def test_one_group_does_not_use_up_the_room_of_the_others() -> None:
    flights = InFlight(limit=8)

    def fill(group: str) -> int:
        while not flights.is_full(group):
            made = msgspec.structs.replace(point(1000 + len(flights)), group=group)
            flights.add(made.key, made, 0, next(places))
        return flights.count(group)

    places = count()
    assert fill("greedy") == 8, "alone it may have all there is"
    assert fill("b") == 4
    assert fill("c") == 2
    assert [fill("b"), fill("greedy")] == [4, 8], "who has more gets nothing more"
    for key, flight in flights.of_groups({"greedy"}):
        flights.forget(key)
        assert flight.point.group == "greedy"
    assert flights.count("greedy") == 0
    assert len(flights) == 6
    assert not flights.is_full("b")
