"""Bounded log lines."""

from __future__ import annotations

from rocketpipe.remoting.log_budget import LogBudget


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_minute_has_room_for_so_many_lines_and_the_rest_is_counted() -> None:
    time = Time()
    budget = LogBudget(3, time)
    assert [budget.allows() for _ in range(5)] == [True, True, True, False, False]
    time.now = 61
    assert budget.allows()
    assert budget.suppressed() == " left_out=2"
    assert budget.suppressed() == ""


def test_lines_about_the_same_need_one_a_minute() -> None:
    time = Time()
    budget = LogBudget(3, time)
    said = [budget.allows(about) for about in ("a is gone", "a is gone", "b is gone", "a is gone")]
    assert said == [True, False, True, False]
    time.now = 61
    assert budget.allows("a is gone")
    assert budget.suppressed() == " left_out=2"


def test_a_quiet_log_says_nothing_of_what_was_left_out() -> None:
    budget = LogBudget(3, Time())
    assert budget.allows()
    assert budget.suppressed() == ""
