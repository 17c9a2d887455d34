"""The rows of a table of files as Spark reads them: which files count, the table says.

Columns that a file does not have are NULL, as for every reader of such tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from rocketpipe.tables.stored import StoredFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of(
    spark: SparkSession, files: Sequence[StoredFile], schema: pa.Schema, columns: Sequence[str]
) -> DataFrame:
    """Some columns of the rows of these files."""
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema

    wanted = from_arrow_schema(pa.schema([schema.field(name) for name in columns]))
    groups: dict[tuple[tuple[str, str | None], ...], list[str]] = {}
    for each in files:
        missing = tuple((name, value) for name, value in each.part.items() if name in columns)
        groups.setdefault(missing, []).append(f"file://{each.path}")
    if not groups:
        return spark.createDataFrame([], wanted)
    frames = []
    for part, paths in groups.items():
        names = {name for name, _ in part}
        there = type(wanted)([one for one in wanted.fields if one.name not in names])
        frame = spark.read.schema(there).parquet(*paths)
        for name, value in part:
            frame = frame.withColumn(name, f.lit(value).cast(wanted[name].dataType))
        frames.append(frame.select(*columns))
    return reduce(lambda one, other: one.unionAll(other), frames)
