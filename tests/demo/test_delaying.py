"""Boarding calls: that they come, and not before their moment."""

from __future__ import annotations

import json

from demo.delaying import STEP_MS, BoardingCalls


def test_a_call_before_its_moment_is_early() -> None:
    calls = BoardingCalls(3)
    calls.note(0, due_ms=10_000, now_ms=10_004)
    calls.note(1, due_ms=10_000, now_ms=10_000 - STEP_MS)  # the timer's own step
    calls.note(2, due_ms=10_000, now_ms=10_000 - STEP_MS - 1)
    assert (calls.tally.found, calls.early, calls.latest_ms) == (3, 1, 4)


def test_half_of_the_calls_have_a_level_and_half_a_time_of_their_own() -> None:
    calls = BoardingCalls(12)
    made = [calls._call(number) for number in range(12)]
    assert {call.delay_level for call in made} == {0, 1, 2, 3}
    assert {call.delay_ms for call in made} == {None, 3_000, 6_000, 12_000}
    assert [json.loads(call.body)["id"] for call in made] == list(range(12))
