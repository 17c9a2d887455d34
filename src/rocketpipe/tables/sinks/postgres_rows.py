"""The rows of a table of PostgreSQL as Spark reads them, without a jar: tasks read its pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rocketpipe.tables.sinks.database import Database, TableName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Pages of 8 KiB that a task reads.
_TASK_PAGES: Final = 16_384
_FETCH_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class PageReader:
    """Reads the pages that it is given; it travels to the tasks, and holds no secret."""

    database: Database
    table: TableName
    schema: pa.Schema

    def __call__(self, ranges: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For ``mapInArrow``: the rows of pages whose numbers, in portions, are in ``id``.

        Raises:
            DatabaseAway: If the server is, or goes away.
        """
        for batch in ranges:
            for number in batch.column(0).to_pylist():
                yield from self._rows(number)

    def portions(self) -> int:
        """How many tasks' pages there are."""
        with self.database.opened() as connection:
            found = connection.execute(
                "SELECT pg_relation_size(%s) / 8192", (self.table.quoted.as_string(connection),)
            ).fetchone()
        return 1 + int(found[0] if found else 0) // _TASK_PAGES

    def _rows(self, number: int) -> Iterator[pa.RecordBatch]:
        from psycopg import sql

        first, end = number * _TASK_PAGES, (number + 1) * _TASK_PAGES
        asked = sql.SQL("SELECT {} FROM {} WHERE ctid >= {}::tid AND ctid < {}::tid").format(
            sql.SQL(", ").join(sql.Identifier(name) for name in self.schema.names),
            self.table.quoted,
            sql.Literal(f"({first},0)"),
            sql.Literal(f"({end},0)"),
        )
        with (
            self.database.opened() as connection,
            connection.transaction(),
            connection.cursor(name="rocketpipe_rows") as cursor,
        ):
            cursor.execute(asked)
            while found := cursor.fetchmany(_FETCH_ROWS):
                arrays = [
                    pa.array([row[place] for row in found], field.type)
                    for place, field in enumerate(self.schema)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def frame_of(
    spark: SparkSession,
    database: Database,
    table: TableName,
    schema: pa.Schema,
    columns: Sequence[str],
) -> DataFrame:
    """Some columns of a table."""
    from pyspark.sql.pandas.types import from_arrow_schema

    wanted = pa.schema([schema.field(name).with_nullable(True) for name in columns])
    reader = PageReader(database, table, wanted)
    count = reader.portions()
    # Typed for one kind of frame, and it may be Spark Connect's.
    numbers: Any = spark.range(0, count, numPartitions=count)
    frame: DataFrame = numbers.mapInArrow(reader, from_arrow_schema(wanted))
    return frame
