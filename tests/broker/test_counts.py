"""Counts that only metrics tell."""

from __future__ import annotations

from rocketpipe.broker.counts import Answered, Counts, Spread, sizes_of


def test_a_value_on_a_bound_counts_below_it() -> None:
    spread = Spread((1, 3))
    for value in (0, 1, 2, 3, 4):
        spread.add(value)
    assert spread.counts == [2, 2, 1]
    assert spread.total == 10


def test_sizes_are_told_only_where_one_is_not_small() -> None:
    assert sizes_of([1, 1024]) is None
    assert sizes_of([1, 1025, 5 << 20]) == [1, 1, 0, 0, 0, 0, 1]


def test_small_ones_and_others_add_up() -> None:
    counts = Counts(max_keys=10)
    counts.stored("orders", "normal", 3, 300, None)
    counts.stored("orders", "normal", 2, 3000, sizes_of([1000, 2000]))
    ((topic, kind, spread),) = counts.by_type()
    assert (topic, kind) == ("orders", "normal")
    assert spread.counts[:2] == [4, 1]
    assert spread.total == 3300


def test_keys_are_bounded_and_a_deleted_topic_is_forgotten() -> None:
    counts = Counts(max_keys=2)
    for number in range(5):
        counts.stored(f"t{number}", "normal", 1, 1, None)
        counts.dead_letter("shop", f"t{number}")
        counts.committed(f"t{number}", 7000)
        counts.rolled_back(f"t{number}")
        counts.answered(Answered(number, 0, waited=False), 1)
    assert len(list(counts.by_type())) == 2
    assert len(list(counts.dead_letters())) == 2
    assert [topic for topic, _ in counts.commits()] == ["t0", "t1"]
    assert len(list(counts.answers())) == 5
    counts.forget_topic("t0")
    assert [topic for topic, *_ in counts.by_type()] == ["t1"]
    assert list(counts.dead_letters()) == [("shop", "t1", 1)]
    assert [topic for topic, _ in counts.commits()] == ["t1"]
    assert list(counts.rollbacks()) == [("t1", 1)]
