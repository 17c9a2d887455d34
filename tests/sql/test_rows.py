"""Rows of a real Spark, taken as they come."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rocketpipe.pipeline.failures import spark_errors
from rocketpipe.sql.errors import StatementFailed
from rocketpipe.sql.rows import MOST_AT_ONCE, arrow_frame, rows_of

pytestmark = pytest.mark.spark


def test_no_partition_is_read_before_its_rows_are_taken(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT id, IF(id = 39999, raise_error('read too far'), 0) AS x FROM range(0, 40000, 1, 4)"
    )
    assert [row["id"] for row in islice(rows_of(frame, None), 5)] == [0, 1, 2, 3, 4]
    limit = MOST_AT_ONCE + 5
    few = rows_of(frame, limit)
    assert [row["id"] for row in few] == list(range(limit + 1))  # one more: there are more
    taken: list[int] = []
    with pytest.raises(spark_errors(), match="read too far"):
        taken += [row["id"] for row in rows_of(frame, None)]


@pytest.mark.parametrize("limit", [None, 10])
def test_every_type_comes_as_a_value_or_as_text(spark: SparkSession, limit: int | None) -> None:
    odd = {
        "map()": "{}",
        "map_filter(map('a', 1), (k, v) -> false)": {},
        "map('a', 1)": {"a": 1},
        "map(named_struct('a', 1), 2)": [({"a": 1}, 2)],
        "INTERVAL '1-2' YEAR TO MONTH": "INTERVAL '1-2' YEAR TO MONTH",
        "make_interval(1, 2)": "1 years 2 months",
        "named_struct('a', 1, 'a', 2)": "{1, 2}",
        "array(X'FF', NULL)": [b"\xff", None],
        "NULL": None,
    }
    names = [f"`c {number}.`" for number in range(len(odd))]
    columns = ", ".join(f"{each} AS {name}" for each, name in zip(odd, names, strict=True))
    frame = arrow_frame(spark.sql(f"SELECT {columns}, 7 AS twice, 8 AS twice, parse_json('[1]')"))
    [row] = rows_of(frame, limit)
    *values, seven, eight, variant = row.values()
    assert values == list(odd.values())
    assert (row["twice"], row["twice_2"]) == (seven, eight) == (7, 8)
    assert json.loads(variant) == [1]


def test_a_day_before_the_year_1_is_refused_in_a_line(spark: SparkSession) -> None:
    frame: Any = arrow_frame(spark.sql("SELECT DATE'-0044-03-15' AS ides"))
    with pytest.raises(StatementFailed, match="CAST dates and times before the year 1 AS STRING"):
        list(rows_of(frame, 10))
