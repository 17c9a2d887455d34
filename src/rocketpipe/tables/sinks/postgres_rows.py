"""The rows of a table of PostgreSQL as tasks read them, without a jar: each some of its pages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from rocketpipe.tables.errors import DatabaseRefused
from rocketpipe.tables.sinks.database import Database, TableName
from rocketpipe.tables.stored import UnreadablePart

#: Pages of 8 KiB that a task reads.
_TASK_PAGES: Final = 16_384
_FETCH_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Pages:
    """Some pages of a table; it travels to a task, and holds no secret."""

    database: Database
    table: TableName
    first: int

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of these pages, with just these columns.

        Raises:
            DatabaseAway: If the server is, or goes away.
            UnreadablePart: If it does not give them.
        """
        try:
            yield from self._rows(pa.schema([each.with_nullable(True) for each in schema]))
        except DatabaseRefused as error:
            raise UnreadablePart(str(error)) from error

    def _rows(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        from psycopg import sql

        end = self.first + _TASK_PAGES
        asked = sql.SQL("SELECT {} FROM {} WHERE ctid >= {}::tid AND ctid < {}::tid").format(
            sql.SQL(", ").join(sql.Identifier(name) for name in schema.names),
            self.table.quoted,
            sql.Literal(f"({self.first},0)"),
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
                    for place, field in enumerate(schema)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def pages_of(database: Database, table: TableName) -> tuple[Pages, ...]:
    """All pages that a table has now, and those that it gets meanwhile."""
    with database.opened() as connection:
        found = connection.execute(
            "SELECT pg_relation_size(%s) / 8192", (table.quoted.as_string(connection),)
        ).fetchone()
    pages = int(found[0] if found else 0)
    return tuple(Pages(database, table, first) for first in range(0, pages + 1, _TASK_PAGES))
