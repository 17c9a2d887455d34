from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpipe.errors import FilterError
from rocketpipe.filter import sql_tree as tree
from rocketpipe.filter.sql_tree import FALSE, NULL, TRUE, Kind, Literal, Negation, Property, Truth

A = Property("a")
ONE = Literal(Kind.INT, 1)
TWO_AND_A_HALF = Literal(Kind.DOUBLE, 2.5)
TEXT = Literal(Kind.TEXT, "x")
CONDITION = tree.Equality(A, ONE)


def refused(build: Callable[[], object], reason: str) -> None:
    with pytest.raises(FilterError, match=reason) as caught:
        build()
    assert caught.value.column == 7


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("0", Kind.INT, 0),
        ("2147483647", Kind.INT, 2**31 - 1),
        ("2147483648", Kind.LONG, 2**31),
        ("5L", Kind.INT, 5),
        ("9223372036854775807l", Kind.LONG, 2**63 - 1),
    ],
)
def test_a_whole_number_is_an_int_if_it_fits(text: str, kind: Kind, value: int) -> None:
    assert tree.whole_literal(text, 7) == Literal(kind, value)


@pytest.mark.parametrize("text", ["9223372036854775808", "9" * 20, "9" * 5000])
def test_a_whole_number_beyond_64_bits_is_refused(text: str) -> None:
    refused(lambda: tree.whole_literal(text, 7), "above 9223372036854775807")


def test_a_decimal_number_is_within_what_a_double_holds_and_not_zero() -> None:
    assert tree.decimal_literal("5.e1", 7) == Literal(Kind.DOUBLE, 50.0)
    assert tree.decimal_literal("4.9E-324", 7) == Literal(Kind.DOUBLE, 5e-324)
    refused(lambda: tree.decimal_literal("1e309", 7), "largest double")
    refused(lambda: tree.decimal_literal("0.0", 7), "zero")
    refused(lambda: tree.decimal_literal("2e-324", 7), "zero")


def test_a_doubled_quote_in_a_text_is_one() -> None:
    assert tree.text_literal("'it''s'") == "it's"
    assert tree.text_literal("''''") == "'"


def test_a_property_may_stand_for_a_condition_but_no_other_value() -> None:
    assert tree.condition(A, 7) == Truth(A)
    for node in (TRUE, FALSE, NULL, CONDITION):
        assert tree.condition(node, 7) is node
    for node in (ONE, TWO_AND_A_HALF, TEXT, Negation(A)):
        refused(lambda node=node: tree.condition(node, 7), "where a condition is due")


def test_null_is_no_side_of_an_equality_and_true_no_left_one_of_a_literal() -> None:
    refused(lambda: tree.equality(A, NULL, 7), "IS NULL")
    refused(lambda: tree.equality(NULL, A, 7), "IS NULL")
    refused(lambda: tree.equality(TRUE, ONE, 7), "compared with a number or text")
    refused(lambda: tree.equality(FALSE, TEXT, 7), "compared with a number or text")
    assert tree.equality(ONE, TRUE, 7) == tree.Equality(ONE, TRUE)
    assert tree.equality(TRUE, A, 7) == tree.Equality(TRUE, A)


@pytest.mark.parametrize("node", [TRUE, FALSE, NULL, CONDITION, TEXT])
def test_only_numbers_and_properties_have_an_order(node: tree.Node) -> None:
    refused(lambda: tree.order("<", A, node, 7), "no order")
    refused(lambda: tree.order("<", node, A, 7), "no order")
    refused(lambda: tree.between(node, ONE, ONE, 7, negated=False), "no order")
    refused(lambda: tree.between(A, ONE, node, 7, negated=True), "no order")
    assert tree.order("<", Negation(node), A, 7)


def test_two_literals_with_nothing_between_them_are_refused_unless_negated() -> None:
    refused(lambda: tree.between(A, TWO_AND_A_HALF, ONE, 7, negated=False), "low end above")
    assert tree.between(A, TWO_AND_A_HALF, ONE, 7, negated=True)
    assert tree.between(A, ONE, ONE, 7, negated=False)
    assert tree.between(A, ONE, Negation(TWO_AND_A_HALF), 7, negated=False)
    # Compared as doubles, these two are the same.
    odd, even = Literal(Kind.LONG, 2**53 + 1), Literal(Kind.DOUBLE, float(2**53))
    assert tree.between(A, odd, even, 7, negated=False)


def test_only_a_property_is_in_a_list() -> None:
    assert tree.membership(A, frozenset("x"), 7, negated=False)
    refused(lambda: tree.membership(TEXT, frozenset("x"), 7, negated=False), "not a property")
