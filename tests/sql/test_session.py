"""Statements on a real Spark, against real servers."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from rocketpipe.blocking import Admin
from rocketpipe.pipeline import register
from rocketpipe.sql.catalogue import Catalogue
from rocketpipe.sql.errors import StatementFailed
from rocketpipe.sql.session import SqlSession
from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.spark


class Answer(NamedTuple):
    """All that a statement gave."""

    columns: list[str]
    rows: list[dict[str, Any]]
    more: bool


@pytest.fixture
def sql(spark: SparkSession, servers: Servers, admin: Admin) -> SqlSession:
    register(spark)
    return SqlSession(spark, admin, servers.name_server, Catalogue(admin))


def run(sql: SqlSession, statement: str, limit: int | None = 1000) -> Answer:
    with sql.asked(statement, limit) as result:
        rows = list(result.rows)
        return Answer(list(result.columns), rows, result.more)


def views_of(spark: SparkSession) -> set[str]:
    """Spark is shared with other tests, which may have left some."""
    return {table.name for table in spark.catalog.listTables() if table.isTemporary}


def test_topics_are_tables_that_are_read_and_inserted_into(
    sql: SqlSession, spark: SparkSession
) -> None:
    before = views_of(spark)
    found = run(sql, "SELECT tags, count(*) AS n FROM orders GROUP BY 1")
    assert found.rows == [{"tags": "new", "n": 10}]
    run(
        sql,
        "INSERT INTO orders (cents, city, tags) SELECT max(cents) + 1, 'Pune', NULL FROM orders",
    )
    rows = run(sql, "SELECT city, sum(cents) c FROM orders GROUP BY city ORDER BY city").rows
    assert rows == [{"city": "Oslo", "c": 45}, {"city": "Pune", "c": 10}]
    run(sql, "INSERT INTO `my-notes` VALUES ('hello', 'a', 'k')")
    rows = run(sql, "SELECT * FROM `my-notes`").rows
    assert [(row["body"], row["tags"], row["keys"]) for row in rows] == [(b"hello", "a", ["k"])]
    # Its twin in another case is another topic, also in one statement.
    both = run(sql, "SELECT (SELECT count(*) FROM orders) a, (SELECT count(*) FROM Orders) b")
    assert both.rows == [{"a": 11, "b": 0}]
    few = run(sql, "SELECT queue_id, queue_id FROM orders", limit=3)
    assert (len(few.rows), few.more, few.columns) == (3, True, ["queue_id", "queue_id_2"])
    every = run(sql, "SELECT queue_offset FROM orders", limit=None)
    assert (len(every.rows), every.more) == (11, False)
    assert views_of(spark) == before


def test_a_failure_amid_rows_is_told_in_a_line(sql: SqlSession) -> None:
    statement = "SELECT IF(id = 39999, raise_error('too far'), id) x FROM range(0, 40000, 1, 4)"
    with pytest.raises(StatementFailed, match="too far") as failed:
        run(sql, statement, limit=None)
    assert "\n" not in str(failed.value)


def test_bodies_in_avro_are_columns(sql: SqlSession, admin: Admin) -> None:
    schema = '{"type": "record", "name": "N", "fields": [{"name": "city", "type": "string"}]}'
    admin.topics.create("typed", queues=1, attributes={"body.schema": f"avro:{schema}"})
    run(sql, "INSERT INTO typed VALUES ('Oslo', 'a-tag')")
    run(sql, "INSERT INTO typed (body) VALUES (X'FF')")
    rows = run(sql, "SELECT city, decode_error IS NULL AS is_good FROM typed ORDER BY 1").rows
    assert rows == [{"city": None, "is_good": False}, {"city": "Oslo", "is_good": True}]
    with pytest.raises(StatementFailed, match="has no column 'town' to insert: city"):
        run(sql, "INSERT INTO typed (town) VALUES ('Lima')")
    admin.topics.delete("typed")


def test_what_is_known_of_a_cluster_is_a_table_too(sql: SqlSession, admin: Admin) -> None:
    admin.groups.create("shop")
    rows = run(
        sql,
        "SELECT groups.group, members, lag.lag FROM rocketpipe.groups "
        "LEFT JOIN rocketpipe.lag ON lag.group = groups.group WHERE groups.group = 'shop'",
    ).rows
    assert rows == [{"group": "shop", "members": 0, "lag": None}]
    for name in ("dead_letters", "delayed", "traces"):
        assert run(sql, f"SELECT count(*) AS n FROM rocketpipe.{name}").rows == [{"n": 0}]
    plan = run(sql, "EXPLAIN SELECT tags FROM orders").rows[0]["plan"]
    assert "BatchScan" in plan
    assert "\n== Topics ==\norders: " in plan  # which Spark's plans have no place for
    assert {row["col_name"] for row in run(sql, "DESCRIBE orders").rows} >= {"city", "cents"}


@pytest.mark.parametrize(
    ("statement", "reason", "hint"),
    [
        ("SELECT * FROM ordrs", "no table or topic 'ordrs': did you mean orders", ""),
        ("INSERT INTO ordrs VALUES (1)", "did you mean orders", ""),
        ("SELECT * FROM rocketpipe.grops", r"did you mean rocketpipe\.groups", ""),
        ("SELECT citi FROM orders", "`city`.*pos 7", "SELECT citi FROM orders\n         ^"),
        ("SELECT 1 FORM orders WHERE", "pos 14", "SELECT 1 FORM orders WHERE\n  " + " " * 14 + "^"),
        ("INSERT OVERWRITE orders VALUES ('a', 1)", "use INSERT INTO", ""),
        ("INSERT INTO rocketpipe.groups VALUES (1)", "nothing can be inserted", ""),
        ("DROP TABLE orders", "orders is a topic, which can be read and inserted into", ""),
        ("\n\nSELECT citi FROM orders", "`city`.*pos 7", "SELECT citi FROM orders\n         ^"),
        ("INSERT INTO orders (town) VALUES ('a')", "no column 'town'", ""),
    ],
)
def test_what_is_wrong_is_told_in_a_line(
    sql: SqlSession, statement: str, reason: str, hint: str
) -> None:
    with pytest.raises(StatementFailed, match=reason) as failed:
        run(sql, statement)
    assert "\n" not in str(failed.value)
    assert failed.value.hint == hint
