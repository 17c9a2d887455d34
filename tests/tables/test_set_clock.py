"""A clock that is set, and one that goes on."""

from __future__ import annotations

from rocketpipe.tables.set_clock import SetClock


class Hands:
    """Two clocks, of which one is set."""

    def __init__(self) -> None:
        self.wall_s, self.steady_s = 1_000_000.0, 50.0
        self.clock = SetClock(lambda: self.wall_s, lambda: self.steady_s)

    def go(self, seconds: float, set_s: float = 0) -> None:
        self.wall_s += seconds + set_s
        self.steady_s += seconds


def test_time_that_passes_is_not_a_clock_that_is_set() -> None:
    hands = Hands()
    hands.go(90_000, 0.3)
    assert not hands.clock.is_behind()
    assert hands.clock.ahead_ms() == 0
    hands.go(90_000, -0.9)
    assert not hands.clock.is_behind()
    assert hands.clock.ahead_ms() == 0


def test_a_clock_that_is_set_back_is_behind_until_it_is_right_again() -> None:
    hands = Hands()
    hands.go(1, -3600)
    assert hands.clock.is_behind()
    hands.go(1, 3600)
    assert not hands.clock.is_behind()
    hands.go(1, 3600)
    assert not hands.clock.is_behind()
    hands.go(1, -3600)  # it is right, and behind what it has shown
    assert hands.clock.is_behind()


def test_what_was_made_while_it_was_behind_seems_older_by_that() -> None:
    hands = Hands()
    hands.go(1, 3600)
    assert hands.clock.ahead_ms() == 3_600_000
    hands.go(1, -2 * 3600)
    assert hands.clock.ahead_ms() == 0
    hands.go(1, 3600)
    assert hands.clock.ahead_ms() == 3_600_000
