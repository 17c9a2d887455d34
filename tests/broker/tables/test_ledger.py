"""Which batches were committed, as runs of numbers."""

from __future__ import annotations

import random

import pytest

from rocketpipe.broker.tables.ledger import MAX_PLAN_BYTES, Ledger


def copied(ledger: Ledger) -> Ledger:
    """The same, written down and read."""
    copy = Ledger()
    copy.load(tuple(ledger.entries()))
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
    [entry] = ledger.entries()
    assert entry.runs == ((0, 9999),)
    assert entry.used_ms == 9999


def test_the_plan_of_the_newest_batch_is_kept() -> None:
    ledger = Ledger()
    ledger.note("app", 3, 1, "three")
    ledger.note("app", 2, 2, "two")
    for known in (ledger, copied(ledger)):
        assert (known.plan("app", 3), known.plan("app", 2)) == ("three", None)
    ledger.note("app", 4, 3)
    assert ledger.plan("app", 3) is None


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
