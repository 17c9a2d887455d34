from __future__ import annotations

import pytest

from rocketpipe.sql import statements
from rocketpipe.sql.statements import Listing

KNOWN = ["tags", "body", "queue_id"]


def test_statements_end_where_a_semicolon_is_none_of_a_text_or_comment() -> None:
    whole, rest = statements.split(
        "SELECT ';' -- ; no\n; /* ; */ ;SELECT `a;b` FROM \"x;\"; SELECT r'\\'"
    )
    assert whole == ["SELECT ';' -- ; no\n", 'SELECT `a;b` FROM "x;"']
    assert rest == " SELECT r'\\'"


@pytest.mark.parametrize("text", ["SELECT 'a;", 'SELECT "a;', "SELECT `a;", "SELECT /* a;"])
def test_what_is_still_open_has_no_end(text: str) -> None:
    assert statements.split(text) == ([], text)


def test_an_insert_tells_its_target_its_columns_and_its_query_in_place() -> None:
    text = "INSERT INTO `my-notes` (body, `tags`)\nVALUES (1, 2)"
    found = statements.insert(text)
    assert found is not None
    assert found.target == ("my-notes",)
    assert found.columns == ("body", "tags")
    assert found.query == " " * 37 + "\nVALUES (1, 2)"


@pytest.mark.parametrize(
    ("text", "target", "columns", "by_name"),
    [
        ("insert into table t select 1", ("t",), None, False),
        ("INSERT INTO a.b BY NAME SELECT 1 AS x", ("a", "b"), None, True),
        ("INSERT INTO t (SELECT a FROM b)", ("t",), None, False),
        ("INSERT INTO t (TABLE x)", ("t",), None, False),
        ("INSERT INTO t WITH x AS (SELECT 1) SELECT * FROM x", ("t",), None, False),
        ("INSERT OVERWRITE t VALUES (1)", ("t",), None, False),
    ],
)
def test_inserts_come_in_several_forms(
    text: str, target: tuple[str, ...], columns: tuple[str, ...] | None, by_name: bool
) -> None:
    found = statements.insert(text)
    assert found is not None
    assert (found.target, found.columns, found.by_name) == (target, columns, by_name)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SELECT 1",
        "INSERT INTO my-notes VALUES (1)",
        "INSERT INTO t",
        "INSERT INTO t WITH (a=1) SELECT 1",
    ],
)
def test_what_is_no_insert_is_left_to_spark(text: str) -> None:
    assert statements.insert(text) is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("SELECT tags, count(*) FROM orders GROUP BY 1", ["tags"]),
        ("SELECT count(*) FROM orders", []),
        ("SELECT o.`Body` FROM orders o WHERE 'tags' = 1", ["body"]),
        ("SELECT * FROM orders", None),
        ("SELECT o.* FROM orders o", None),
        ("SELECT queue_id * 2 FROM orders", None),
        ("TABLE orders", None),
        ("FROM orders |> WHERE tags = 'a'", None),
        ("SELECT tags FROM (FROM orders)", None),
        ("SELECT tags FROM a NATURAL JOIN b", None),
        ("DESCRIBE orders", None),
    ],
)
def test_a_statement_uses_the_columns_that_it_names(text: str, named: list[str] | None) -> None:
    assert statements.columns_named(text, KNOWN) == named


def test_a_plan_is_about_the_statement_behind_it() -> None:
    assert statements.explained("EXPLAIN SELECT 1") == "        SELECT 1"
    assert statements.explained("explain formatted\nSELECT 1") == " " * 17 + "\nSELECT 1"
    assert statements.explained("EXPLAIN") is None
    assert statements.explained("SELECT 1") is None


def test_listings_are_known() -> None:
    assert statements.listing(" show tables ") == Listing()
    assert statements.listing("SHOW TABLES IN rocketpipe") == Listing(system_only=True)
    assert statements.listing("SHOW TABLES LIKE 'ord*'") == Listing(pattern="ord*")
    assert statements.listing("SHOW TABLES IN other") is None


def test_names_are_taken_apart_and_quoted() -> None:
    assert statements.name_parts("`rocketpipe`.`groups`") == ("rocketpipe", "groups")
    assert statements.name_parts("`%RETRY%a``b`") == ("%RETRY%a`b",)
    assert statements.plain(statements.quoted("a`b-c")) == "a`b-c"
