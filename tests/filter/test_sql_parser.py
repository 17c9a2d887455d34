from __future__ import annotations

import pytest

from rocketpipe.errors import FilterError
from rocketpipe.filter.sql_parser import (
    MAX_COST,
    MAX_DEPTH,
    MAX_EXPRESSION_CHARS,
    parse,
    parse_priced,
)
from rocketpipe.filter.sql_tree import (
    NULL,
    TRUE,
    AllOf,
    AnyOf,
    Between,
    Equality,
    Kind,
    Literal,
    Membership,
    Negation,
    Not,
    Order,
    Property,
    Search,
    Truth,
)

A, B, C, D = map(Property, "abcd")
ONE, TWO = Literal(Kind.INT, 1), Literal(Kind.INT, 2)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a", Truth(A)),
        ("a = 1", Equality(A, ONE)),
        ("a <> 1", Not(Equality(A, ONE))),
        ("a IS NULL", Equality(A, NULL)),
        ("a IS NOT NULL", Not(Equality(A, NULL))),
        ("a < b", Order("<", A, B)),
        ("a > -1", Order(">", A, Negation(ONE))),
        ("a = +1", Equality(A, ONE)),
        ("a NOT BETWEEN 1 AND -2", Between(A, ONE, Negation(TWO), negated=True)),
        ("a IN ('x', 'y', 'x')", Membership(A, frozenset("xy"), negated=False)),
        ("a NOT IN ('x')", Membership(A, frozenset("x"), negated=True)),
        ("a CONTAINS 'it''s'", Search("CONTAINS", A, "it's", negated=False)),
        ("a not endsWith 'x'", Search("ENDSWITH", A, "x", negated=True)),
    ],
)
def test_every_operator_has_its_node(expression: str, expected: object) -> None:
    assert parse(expression, strict=True) == expected


@pytest.mark.parametrize(
    ("expression", "grouped"),
    [
        ("a OR b AND c", "a OR (b AND c)"),
        ("a AND b OR c AND d", "(a AND b) OR (c AND d)"),
        ("a = b AND c = d", "(a = b) AND (c = d)"),
        ("a = b > 1", "a = (b > 1)"),
        ("a > 1 = b", "(a > 1) = b"),
        ("a = b = c", "(a = b) = c"),
        ("a = b IS NULL", "(a = b) IS NULL"),
        ("a IS NULL = b", "(a IS NULL) = b"),
        ("NOT a = 1", "(NOT a) = 1"),
        ("NOT a AND b", "(NOT a) AND b"),
        ("NOT NOT a", "NOT (NOT a)"),
        ("-a = b", "(-a) = b"),
        ("a BETWEEN 1 AND 2 AND b", "(a BETWEEN 1 AND 2) AND b"),
        ("a BETWEEN (1) AND +2 = b", "(a BETWEEN 1 AND 2) = b"),
        ("a CONTAINS 'x' NOT CONTAINS 'y'", "(a CONTAINS 'x') NOT CONTAINS 'y'"),
        ("a = b CONTAINS 'x'", "a = (b CONTAINS 'x')"),
        ("(a) IN ('x')", "a IN ('x')"),
        ("((a)) = ((1))", "a = 1"),
    ],
)
def test_operators_bind_as_in_rocketmq(expression: str, grouped: str) -> None:
    assert parse(expression, strict=True) == parse(grouped, strict=True)


def test_a_chain_becomes_one_node_but_a_parenthesis_does_not_join_it() -> None:
    assert parse("a AND b AND c") == AllOf((Truth(A), Truth(B), Truth(C)))
    assert parse("a OR b OR c") == AnyOf((Truth(A), Truth(B), Truth(C)))
    assert parse("(a AND b) AND c") == AllOf((AllOf((Truth(A), Truth(B))), Truth(C)))


@pytest.mark.parametrize(
    ("expression", "read", "column"),
    [
        ("a = 1 garbage", "a = 1", 7),
        ("a = 1 garbage \" '", "a = 1", 7),
        ("a = 1)", "a = 1", 6),
        ("a LIKE 'x%'", "a", 3),
        ("a = 0L", "a = 0", 6),
        ("a = 010", "a = 0", 6),
        ("a IS NULL > 1", "a IS NULL", 11),
        ("a = 1 -- no line end", "a = 1", 7),
        ("TRUE 'x'", "TRUE", 6),
    ],
)
def test_text_after_the_end_is_ignored_unless_strict(
    expression: str, read: str, column: int
) -> None:
    assert parse(expression) == parse(read, strict=True)
    with pytest.raises(FilterError, match="complete before this") as caught:
        parse(expression, strict=True)
    assert caught.value.column == column


def test_comments_and_blanks_after_the_end_are_no_text() -> None:
    assert parse("TRUE \t\n-- c\n/* c */ ", strict=True) == TRUE


@pytest.mark.parametrize(
    ("expression", "reason", "column"),
    [
        ("", "expected a property", 1),
        ("  ", "expected a property", 3),
        ("a = ", "expected a property.*the end", 5),
        ("a = =", "expected a property", 5),
        ("AND a", "expected a property", 1),
        ("a AND OR b", "expected a property.*OR", 7),
        ("()", "expected a property", 2),
        ("(a = 1", r"expected \) to close column 1", 7),
        ("(a = (b b) c", r"expected \) to close column 6", 9),
        ("a IS 1", "expected NULL", 6),
        ("a IS NOT b", "expected NULL", 10),
        ("a NOT b", "NOT before b", 7),
        ("a NOT NULL", "NOT before NULL", 7),
        ("a IN 'x'", r"expected \(", 6),
        ("a IN ()", "text in single quotes", 7),
        ("a IN (1)", "text in single quotes", 7),
        ("a IN ('x' 'y')", r"expected \)", 11),
        ("a IN ('x',)", "text in single quotes", 11),
        ("1 IN ('x')", "not a property", 3),
        ("a CONTAINS b", "text in single quotes", 12),
        ("a BETWEEN 1", "expected AND", 12),
        ("a BETWEEN 1 OR 2", "expected AND", 13),
        ("a BETWEEN 2 AND 1", "low end above", 3),
        ("a > 'x'", "no order", 3),
        ("a = NULL", "IS NULL", 3),
        ("b AND 1", "where a condition is due", 7),
        ("NOT 'x'", "where a condition is due", 5),
        ("-a", "where a condition is due", 2),
        ("a = 9223372036854775808", "above", 5),
        ("a > 0.0", "zero", 5),
        ("a != 1", "'!'", 3),
        ("a = 1 !", "'!'", 7),
    ],
)
def test_what_rocketmq_refuses_is_refused_at_its_column(
    expression: str, reason: str, column: int
) -> None:
    with pytest.raises(FilterError, match=reason) as caught:
        parse(expression)
    assert caught.value.column == column


@pytest.mark.parametrize("opening", ["(", "NOT ", "- ", "+ ", "(NOT "])
def test_nesting_beyond_the_limit_is_refused_where_it_passes_it(opening: str) -> None:
    with pytest.raises(FilterError, match=f"nested more than {MAX_DEPTH} deep") as caught:
        parse(opening * 50 * MAX_DEPTH)
    assert caught.value.column <= MAX_DEPTH * len(opening) + 1


@pytest.mark.parametrize("more", [" IS NULL", " = b", " CONTAINS 'x'"])
def test_a_tree_that_grows_to_the_left_is_limited_too(more: str) -> None:
    assert parse("a" + more * (MAX_DEPTH - 1))
    with pytest.raises(FilterError, match=f"nested more than {MAX_DEPTH} deep"):
        parse("a" + more * MAX_DEPTH)


@pytest.mark.parametrize("word", ["AND", "OR"])
def test_a_chain_is_one_level_however_long(word: str) -> None:
    terms = MAX_COST
    chain = parse(f" {word} ".join("a" * terms))
    assert isinstance(chain, AllOf | AnyOf)
    assert len(chain.terms) == terms


def test_nesting_up_to_the_limit_is_read() -> None:
    assert parse("(" * MAX_DEPTH + "a = 1" + ")" * MAX_DEPTH) == Equality(A, ONE)
    # What was closed no longer counts.
    parse(" OR ".join(["(((a = 1)))", "NOT NOT a"] * MAX_DEPTH))


def test_a_text_too_long_is_refused() -> None:
    assert parse("a".ljust(MAX_EXPRESSION_CHARS)) == Truth(A)
    with pytest.raises(FilterError, match="65537 characters") as caught:
        parse("a".ljust(MAX_EXPRESSION_CHARS + 1))
    assert caught.value.column == MAX_EXPRESSION_CHARS + 1


def test_an_expression_that_costs_too_much_to_ask_is_refused_with_the_way_out() -> None:
    most = " OR ".join(f"a = {number}" for number in range(MAX_COST // 2))
    assert parse_priced(most)[1] == MAX_COST
    with pytest.raises(FilterError, match=f"more than {MAX_COST} operators.*a IN") as caught:
        parse(most + " OR a = 1")
    assert caught.value.column == len(most) + 2


@pytest.mark.parametrize(
    "piece", ["TRUE", "a IS NULL", "NOT a", "a", "a CONTAINS 'x'", "a BETWEEN 1 AND 2", "-a = 1"]
)
def test_no_way_to_write_much_is_free(piece: str) -> None:
    chain = " AND ".join([piece] * (MAX_EXPRESSION_CHARS // (len(piece) + 6)))
    with pytest.raises(FilterError, match="operators"):
        parse(chain)


def test_a_list_of_thousands_costs_as_much_as_one_text() -> None:
    many = ", ".join(f"'{number}'" for number in range(7000))
    assert parse_priced(f"a IN ({many})")[1] == parse_priced("a IN ('1')")[1]
