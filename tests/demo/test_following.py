"""What is, and what is not, a breach of an aircraft's order."""

from __future__ import annotations

import pytest
from demo.following import Followers


@pytest.mark.parametrize(
    ("came", "breaches"),
    [
        ([1, 2, 3], 0),
        ([1, 2, 1, 2, 3], 0),  # again after a kill, and on
        ([1, 3, 2], 1),
        ([2, 3, 2, 1], 1),
    ],
)
def test_a_flight_that_first_comes_behind_a_later_one_is_a_breach(
    came: list[int], breaches: int
) -> None:
    followers = Followers(10)
    for number in came:
        followers.note("N1", number)
    assert followers.breaches == breaches
    assert followers.tally.found == len(set(came))


def test_aircraft_are_followed_each_by_itself() -> None:
    followers = Followers(10)
    for aircraft, number in (("N1", 5), ("N2", 1), ("N1", 7), ("N2", 6)):
        followers.note(aircraft, number)
    assert followers.breaches == 0
    assert followers.aircraft == 2
