"""Rules on rows: how they are declared. What they do to rows is in the scenario of running."""

from __future__ import annotations

import pytest

from rocketpipe.projects.expectations import (
    BadRule,
    Rule,
    expect,
    rules_of,
    split_statements,
    sql_parts,
)


def test_rules_that_are_stacked_are_those_of_one_query() -> None:
    def orders() -> str:
        return "rows"

    checked = expect("a > 0", "drop")(expect("b > 0", name="has b")(orders))
    rules, query = rules_of(checked)
    assert rules == (Rule("a > 0", "drop", "a > 0"), Rule("b > 0", "warn", "has b"))
    assert query is orders
    assert checked.__name__ == "orders"
    assert rules_of(orders) == ((), orders)


@pytest.mark.parametrize(("condition", "action"), [("a > 0", "skip"), (" ", "drop")])
def test_a_rule_that_is_none_is_refused(condition: str, action: str) -> None:
    with pytest.raises(BadRule):
        expect(condition, action)


def test_rules_of_sql_stand_before_their_statement() -> None:
    text = """\
    CREATE MATERIALIZED VIEW plain AS SELECT ';' AS x FROM a; -- fine
    -- expect drop: cents >= 0 AND city != 'a;b'
    -- expect quarantine: city IS NOT NULL
    CREATE STREAMING TABLE paid PARTITIONED BY (city) AS
    -- a note; really
    SELECT * FROM STREAM(orders);
    """
    plain, (checked,) = sql_parts(text)
    assert "VIEW plain" in plain
    assert "paid" not in plain
    assert checked.name == "paid"
    assert checked.head == "CREATE STREAMING TABLE paid PARTITIONED BY (city) AS"
    assert checked.query == "SELECT * FROM STREAM(orders)"
    assert [(rule.action, rule.condition) for rule in checked.rules] == [
        ("drop", "cents >= 0 AND city != 'a;b'"),
        ("quarantine", "city IS NOT NULL"),
    ]
    assert sql_parts("SELECT 1; SELECT 2") == ("SELECT 1; SELECT 2", [])


def test_statements_are_cut_where_they_end() -> None:
    assert split_statements("a ';' /* ; */ b; -- ;\nc;") == ["a ';' /* ; */ b", " -- ;\nc"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-- expect cents > 0\nCREATE STREAMING TABLE t AS SELECT 1", "write `-- expect ACTION"),
        ("-- expect drop: a > 0\nCREATE STREAMING TABLE t", "rules stand before CREATE"),
        ("-- expect drop: a > 0\nCREATE TEMPORARY VIEW t AS SELECT 1", "rules stand before"),
    ],
)
def test_a_comment_that_is_no_rule_is_told(text: str, said: str) -> None:
    with pytest.raises(BadRule, match=said):
        sql_parts(text)
