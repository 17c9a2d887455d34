"""Subscriptions as choices over entries and records."""

from __future__ import annotations

import pytest

from rocketpipe.broker.delivery.filtering import EVERYTHING, Filters
from rocketpipe.broker.delivery.sieve import Sieve
from rocketpipe.errors import FilterError
from rocketpipe.model import properties
from rocketpipe.model.subscription import SQL92, TAG, Subscription
from rocketpipe.record.hot import java_hash
from rocketpipe.store.queues.reader import everything


@pytest.fixture
def filters() -> Filters:
    return Filters()


@pytest.mark.parametrize("expression", ["*", "", None, " "])
@pytest.mark.parametrize("kind", [TAG, "", None])
def test_all_messages_are_chosen_without_a_look_at_their_tags(
    filters: Filters, kind: str | None, expression: str | None
) -> None:
    # The reader scans no entry for the predicate that it knows.
    assert filters.choice(kind, expression) == EVERYTHING
    assert EVERYTHING.matches is everything


def test_tags_choose_by_the_hash_in_the_entry(filters: Filters) -> None:
    choice = filters.choice(TAG, "A || Bürger")
    assert choice.accepts is None
    assert choice.matches(java_hash("A"))
    assert choice.matches(java_hash("Bürger"))
    assert not choice.matches(java_hash("B"))
    assert not choice.matches(0)


def test_of_a_long_entry_the_low_bits_count(filters: Filters) -> None:
    choice = filters.choice(TAG, "polygenelubricants")  # hashes to the least number there is
    assert choice.matches(-(1 << 31))
    assert choice.matches(1 << 31)
    assert choice.matches((5 << 32) | (1 << 31))
    assert not choice.matches(5 << 32)


def test_sql_chooses_by_properties_and_reads_every_entry(filters: Filters) -> None:
    choice = filters.choice(SQL92, "a > 5 AND TAGS = 'x'")
    assert choice.matches is everything
    assert choice.accepts is not None
    assert choice.accepts(properties.encode({"a": "6", "TAGS": "x"}).encode())
    assert not choice.accepts(properties.encode({"a": "6", "TAGS": "y"}).encode())
    assert not choice.accepts(properties.encode({"a": "many", "TAGS": "x"}).encode())
    assert not choice.accepts(b"")
    assert not choice.accepts(b"a\x016\x02TAGS\x01\xff\x02")


@pytest.mark.parametrize(
    ("kind", "expression", "reason"),
    [
        (TAG, "||", "without a tag"),
        (SQL92, "", "empty"),
        (SQL92, "a >", "column"),
        ("CLASS", "x", "of type TAG or SQL92"),
    ],
)
def test_what_does_not_compile_says_why(
    filters: Filters, kind: str, expression: str, reason: str
) -> None:
    with pytest.raises(FilterError, match=reason):
        filters.choice(kind, expression)


def test_an_expression_is_compiled_once(filters: Filters) -> None:
    assert filters.choice(SQL92, "a > 5") is filters.choice(SQL92, "a > 5")
    assert filters.choice(SQL92, "a") is not filters.choice(TAG, "a")


def test_so_much_is_kept_and_what_was_not_asked_for_longest_goes_first() -> None:
    filters = Filters(max_chars=20)
    old, other = filters.choice(TAG, "o" * 8), filters.choice(TAG, "p" * 8)
    assert filters.choice(TAG, "o" * 8) is old
    filters.choice(TAG, "q" * 8)
    assert filters.choice(TAG, "o" * 8) is old
    assert filters.choice(TAG, "p" * 8) is not other
    assert filters._chars == sum(len(text) for _, text in filters._kept) <= 20
    assert filters.choice(TAG, "long" * 10).matches(java_hash("long" * 10))


def test_a_group_that_gives_hashes_is_believed(filters: Filters) -> None:
    given = Subscription(topic="t", expression="A", tag_codes=frozenset([7]))
    assert filters.choice_of(given).matches(7)
    assert not filters.choice_of(given).matches(java_hash("A"))


def test_a_group_that_gives_no_hashes_is_read_by_its_expression(filters: Filters) -> None:
    # As C++ clients do.
    assert filters.choice_of(Subscription(topic="t", expression="A")).matches(java_hash("A"))
    assert filters.choice_of(Subscription(topic="t")) == EVERYTHING
    sql = Subscription(topic="t", expression="a IS NULL", expression_type=SQL92)
    accepts = filters.choice_of(sql).accepts
    assert accepts is not None
    assert accepts(b"")


async def test_who_makes_up_expressions_waits_for_a_turn_and_who_has_one_does_not() -> None:
    seconds = iter(range(1000))
    sieve = Sieve(slice_s=1, timer=lambda: float(next(seconds)))
    filters = Filters(sieve=sieve)
    filters.choice("SQL92", "a = 1")
    assert sieve.is_spent
    await filters.turn("SQL92", "a = 1")  # it is compiled
    await filters.turn("TAG", "a")
    assert sieve.is_spent
    await filters.turn("SQL92", "a = 2")
    assert not sieve.is_spent
    with pytest.raises(FilterError):
        filters.choice("SQL92", "a = ")
    assert sieve.is_spent
