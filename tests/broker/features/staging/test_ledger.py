"""Which batches were committed, as runs of numbers."""

from __future__ import annotations

import random

import pytest

from rocketpipe.broker.features.staging.ledger import (
    MAX_CONTENTS,
    MAX_NEWEST,
    MAX_PLAN_BYTES,
    MAX_PLANS,
    Ledger,
)


def copied(ledger: Ledger) -> Ledger:
    """The same, written down and read."""
    copy = Ledger()
    copy.load(tuple(ledger.entries(0)), 0)
    return copy


def test_batches_are_known_in_whatever_order_they_come() -> None:
    numbers = [number for number in range(200) if number % 7]
    ledger = Ledger()
    for number in random.Random(3).sample(numbers, len(numbers)):
        assert not ledger.has("app", number)
        ledger.note("app", number, 5)
        ledger.note("app", number, 5)
    for known in (ledger, copied(ledger)):
        assert [number for number in range(-1, 201) if known.has("app", number)] == numbers
        assert not known.has("other", 1)


def test_batches_in_a_row_take_no_more_room_than_one() -> None:
    ledger = Ledger()
    for number in range(10_000):
        ledger.note("app", number, number)
    [entry] = ledger.entries(10_000)
    assert entry.runs == ((0, 9999),)
    assert entry.age_ms == 1


def test_plans_are_kept_until_they_are_done_and_contents_of_the_newest() -> None:
    ledger = Ledger()
    ledger.note("app", 3, 1, "three", "c3")
    ledger.note("app", 2, 2, "two", "c2")
    ledger.note("app", 4, 3)
    for known in (ledger, copied(ledger)):
        assert (known.plan("app", 3), known.plan("app", 2)) == ("three", "two")
        assert (known.content("app", 3), known.content("app", 4)) == ("c3", None)
        known.replan("app", 3, "rest")
        known.replan("app", 2, None)
        known.replan("app", 9, "of nothing")
        assert [known.plan("app", number) for number in (2, 3, 9)] == [None, "rest", None]
    for number in range(10, 10 + MAX_CONTENTS):
        ledger.note("app", number, 4, None, "new")
    assert ledger.content("app", 3) is None
    assert ledger.content("app", 10) == "new"


def test_so_many_batches_may_wait_for_other_brokers() -> None:
    ledger = Ledger()
    for number in range(MAX_PLANS):
        assert ledger.refusal("app", "plan") is None
        ledger.note("app", number, 1, "plan")
    assert "64 batches of 'app' may not show yet" in (ledger.refusal("app", "plan") or "")
    assert ledger.refusal("app", None) is None
    assert ledger.refusal("other", "plan") is None


def test_only_the_time_counts_in_which_a_broker_ran() -> None:
    ledger = Ledger()
    ledger.note("app", 0, 100)
    later = Ledger()
    later.load(tuple(ledger.entries(150)), 10_000)  # the next run, whenever that is
    assert later.forget_unused(10_000 - 50) == []
    assert later.forget_unused(10_000 - 49) == ["app"]


def test_what_is_not_done_everywhere_is_not_forgotten() -> None:
    ledger = Ledger()
    ledger.note("app", 0, 100, "plan")
    assert ledger.forget_unused(1000) == []
    ledger.replan("app", 0, None)
    assert ledger.forget_unused(1000) == ["app"]


def test_there_is_an_end_to_what_is_remembered() -> None:
    ledger = Ledger(max_bytes=2000)
    noted = 0
    while ledger.refusal(f"app-{noted}", None) is None:
        ledger.note(f"app-{noted}", 0, noted)
        noted += 1
    assert 5 < noted < 20
    assert "use few names" in (ledger.refusal("more", None) or "")
    assert ledger.forget_unused(2) == ["app-0", "app-1"]
    assert len(ledger) == noted - 2
    assert ledger.refusal("more", None) is None
    assert "a plan of" in (Ledger().refusal("app", "x" * (MAX_PLAN_BYTES + 1)) or "")


@pytest.mark.parametrize("batch", [0, (1 << 63) - 1])
def test_any_number_will_do(batch: int) -> None:
    ledger = Ledger()
    ledger.note("app", batch, 1)
    assert copied(ledger).has("app", batch)


def test_the_newest_are_told_to_whoever_takes_over() -> None:
    ledger = Ledger()
    assert list(ledger.newest()) == []
    for number in (*range(100), 200, *range(300, 310)):
        ledger.note("app", number, 5)
    ledger.note("other", 7, 5, content="a row")
    app, other = ledger.newest()
    assert other == ("other", (7,), {7: "a row"})
    assert app[1] == (*range(47, 100), 200, *range(300, 310))
    assert len(app[1]) == MAX_NEWEST
