"""Counting who was seen how often."""

from __future__ import annotations

from demo.tally import Tally


def test_first_sights_and_others_are_told_apart() -> None:
    tally = Tally(5)
    assert [tally.add(number) for number in (0, 3, 3, 3, 4)] == [True, True, False, False, True]
    assert (tally.found, tally.again, tally.twice()) == (3, 2, 1)
    assert 3 in tally
    assert 1 not in tally
    assert tally.missing(range(5)) == 2


def test_what_nobody_sent_is_strange_and_not_found() -> None:
    tally = Tally(5)
    assert not tally.add(5)
    assert not tally.add(-1)
    assert (tally.found, tally.strange) == (0, 2)


def test_a_sight_more_than_a_byte_holds_is_still_counted() -> None:
    tally = Tally(1)
    for _ in range(300):
        tally.add(0)
    assert (tally.found, tally.again, tally.twice()) == (1, 299, 1)
