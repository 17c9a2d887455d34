from __future__ import annotations

import pytest

from rocketpipe.sql.errors import StatementFailed
from rocketpipe.sql.inserting import column_names
from rocketpipe.sql.statements import Insert, insert

FIELDS = ["city", "cents"]


def _insert(text: str) -> Insert:
    found = insert(text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "given", "fields", "names"),
    [
        ("INSERT INTO t VALUES (1)", ["col1"], [], ["body"]),
        ("INSERT INTO t VALUES (1, 2)", ["col1", "col2"], [], ["body", "tags"]),
        ("INSERT INTO t VALUES (1, 2, 3)", ["a", "b", "c"], FIELDS, ["city", "cents", "tags"]),
        ("INSERT INTO t (TAGS, City) VALUES (1, 2)", ["a", "b"], FIELDS, ["tags", "city"]),
        ("INSERT INTO t BY NAME SELECT 1 AS Cents", ["Cents"], FIELDS, ["cents"]),
        ("INSERT INTO t (body) VALUES (1)", ["a"], FIELDS, ["body"]),
    ],
)
def test_values_find_their_columns(
    text: str, given: list[str], fields: list[str], names: list[str]
) -> None:
    assert column_names(_insert(text), given, fields) == names


@pytest.mark.parametrize(
    ("text", "given", "reason"),
    [
        ("INSERT INTO t (city) VALUES (1, 2)", ["a", "b"], "1 columns are named, and 2 are given"),
        ("INSERT INTO t (town) VALUES (1)", ["a"], "no column 'town'.*city, cents"),
        ("INSERT INTO t (city, CITY) VALUES (1, 2)", ["a", "b"], "twice"),
        ("INSERT INTO t (body, city) VALUES (1, 2)", ["a", "b"], "not both"),
        ("INSERT INTO t (tags) VALUES (1)", ["a"], "nothing is given for the body"),
        ("INSERT INTO t SELECT *", ["a"] * 8, "8 values are given, for city"),
    ],
)
def test_values_without_a_column_are_refused(text: str, given: list[str], reason: str) -> None:
    with pytest.raises(StatementFailed, match=reason):
        column_names(_insert(text), given, FIELDS)
