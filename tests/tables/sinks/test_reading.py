"""The rows of tables of files, as Spark reads them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from rocketpipe.tables.files import PartFiles
from rocketpipe.tables.sinks.delta import DeltaSink
from rocketpipe.tables.sinks.parquet import ParquetSink
from rocketpipe.tables.sinks.sink import BatchSink

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("number", pa.int64()), ("kind", pa.string())])


def filled(sink: BatchSink, batch: int, kinds: list[str | None], schema: pa.Schema) -> None:
    sink.prepare(schema)
    writer = sink.rows_to.open(schema, "kind")
    assert isinstance(writer, PartFiles)
    rows = {name: [None] * len(kinds) for name in schema.names}
    writer.add(pa.RecordBatch.from_pydict(rows | {"kind": kinds}, schema))
    assert sink.commit(writer.finish(), batch)


@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_partition_columns_and_columns_that_came_later_are_there(
    tmp_path: Path, spark: SparkSession, form: str
) -> None:
    wider = pa.schema([*SCHEMA, ("note", pa.string())])
    sink: BatchSink = (
        DeltaSink(tmp_path, "me", "kind")
        if form == "delta"
        else ParquetSink(tmp_path, tmp_path / "_staging", wider)
    )
    sink.prepare(wider)
    assert sink.frame(spark, ["kind", "note"]).count() == 0
    filled(sink, 0, ["a b/c=%", "a", None], SCHEMA if form == "parquet" else wider)
    filled(sink, 1, ["a"], wider)
    found = Counter(tuple(row) for row in sink.frame(spark, ["kind", "note"]).collect())
    assert found == {(None, None): 1, ("a", None): 2, ("a b/c=%", None): 1}
    assert sink.frame(spark, ["number"]).count() == 4
