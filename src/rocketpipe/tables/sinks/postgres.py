"""A table of a PostgreSQL: rows and the batch's number in one transaction.

Tasks copy rows to tables of their own (`rocketpipe.tables.sinks.copying`); the driver moves them,
in the transaction that sets the number in ``rocketpipe_batches``:

    table_name   orders            the table in the same schema
    table_id     <uuid>            under which its batches are numbered
    batch        41                the last one that it has
    rows         1200345           how many rows all batches had
    written_at   …                 when
    kept_in      …                 the directory of its checkpoint, and on which machine

The row of the table is locked first, so two drivers come one after the other, and the second finds
the number. Who loses the connection at COMMIT looks the number up. What is moved is counted: tasks'
tables are not logged, and a server that crashed has emptied them.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rocketpipe.tables.columns import ONLY_MORE
from rocketpipe.tables.errors import (
    DatabaseAway,
    DatabaseRefused,
    NotATable,
    SpecMismatch,
    TableError,
)
from rocketpipe.tables.files import WrittenFile
from rocketpipe.tables.sinks.copying import StagingTables, column_of, type_of
from rocketpipe.tables.sinks.database import Database, TableName
from rocketpipe.tables.sinks.postgres_rows import frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rocketpipe.tables.sinks.database import Connection

log = logging.getLogger("rocketpipe.tables")

BATCHES: Final = "rocketpipe_batches"
STAGING: Final = "rocketpipe_stage_"
_MAKE_BATCHES: Final = """
    CREATE TABLE IF NOT EXISTS {} (
        table_name text PRIMARY KEY,
        table_id text NOT NULL,
        batch bigint,
        rows bigint NOT NULL DEFAULT 0,
        written_at timestamptz,
        kept_in text NOT NULL
    )
"""
#: What a name is, in PostgreSQL's letters.
_KINDS: Final = {"v": "view", "m": "materialised view", "f": "foreign table", "i": "index"}


class PostgresSink:
    """A table of a PostgreSQL, and the batches of one query that it has."""

    def __init__(
        self,
        database: Database,
        table: TableName,
        table_id: str,
        kept_in: str,
        schema: pa.Schema | None = None,
    ) -> None:
        """``table_id`` is the name under which its batches are numbered.

        ``schema`` is for reading.
        """
        self._schema = schema
        self._database = database
        self._table = table
        self._batches = table.beside(BATCHES)
        self._id = table_id
        self._kept_in = f"{kept_in} on {socket.gethostname()}"
        key = blake2b(f"{table_id} {table}".encode(), digest_size=6).hexdigest()
        self._prefix = f"{STAGING}{key}_"

    def __str__(self) -> str:
        return f"{self._database} {self._table}"

    @property
    def rows_to(self) -> StagingTables:
        """Tables that nobody but their task writes."""
        return StagingTables(self._database, self._table.schema, self._prefix)

    def check_free(self) -> None:
        """See that a table can be made, and that there is none of that name.

        Raises:
            NotATable: If there is.
            DatabaseRefused: If the database cannot have ours.
            DatabaseAway: If it is.
        """
        with self._database.opened() as connection:
            [(encoding, schema)] = _rows(
                connection,
                "SELECT current_setting('server_encoding'), coalesce(%s, current_schema())",
                self._table.schema,
            )
            if encoding != "UTF8":
                raise DatabaseRefused(
                    str(self), f"the database keeps text as {encoding}: make one with UTF8"
                )
            may = _rows(
                connection,
                "SELECT has_schema_privilege(oid, 'CREATE') AND has_schema_privilege(oid, 'USAGE') "
                "FROM pg_namespace WHERE nspname = %s",
                schema,
            )
            if not may:
                raise DatabaseRefused(str(self), f"there is no schema {schema!r}: make it first")
            if not may[0][0]:
                raise DatabaseRefused(
                    str(self), f"the user may not make tables in schema {schema!r}: GRANT CREATE"
                )
            if self._kind(connection, self._table) is not None:
                raise self._taken(connection)

    def last_batch(self) -> int | None:
        """The number of the last batch that the table has."""
        with self._database.opened() as connection:
            known = self._known(connection)
            return None if known is None else known[0]

    def prepare(self, schema: pa.Schema) -> None:
        """Make the table, or add columns to it.

        Raises:
            NotATable: If it is somebody else's.
            SpecMismatch: If it has other columns.
        """
        from psycopg import sql

        with self._database.opened() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (BATCHES,))
            if self._kind(connection, self._batches) is None:
                connection.execute(sql.SQL(_MAKE_BATCHES).format(self._batches.quoted))
            if self._kind(connection, self._table) is None:
                self._make(connection, schema)
                return
            if self._known(connection) is None:
                raise self._taken(connection)
            self._widen(connection, schema)

    def commit(
        self, files: Sequence[WrittenFile], batch: int, notes: Mapping[str, str] | None = None
    ) -> bool:
        """Move rows with the batch's number; False if the table has that batch.

        Raises:
            DatabaseAway: If the server was away; whether the batch is there has been looked up.
            DatabaseRefused: If it refuses them.
        """
        try:
            with self._database.opened() as connection:
                moved = self._move(connection, files, batch)
        except DatabaseAway:
            if not self._has(batch):
                raise
            log.info("batch found table=%s batch=%d after its answer was lost", self, batch)
            moved = True
        self._clear()
        return moved

    def discard(self, files: Sequence[WrittenFile]) -> None:
        """Remove what tasks copied."""
        self._clear()

    def upkeep(self, *, keep_ms: int, compact: bool) -> Mapping[str, Any]:
        """Remove what tasks that died have copied; PostgreSQL looks after the rest itself."""
        return {"removed": self._clear()}

    def figures(self) -> Mapping[str, Any]:
        """Rows that batches had, and bytes with all that belongs to the table."""
        from psycopg import sql

        with self._database.opened() as connection:
            known = self._known(connection)
            if known is None:
                return {"rows": 0, "files": None, "bytes": 0, "version": None}
            name = self._table.quoted.as_string(connection)
            [(size,)] = _rows(connection, sql.SQL("SELECT pg_total_relation_size(%s)"), name)
        return {"rows": known[1], "files": None, "bytes": size, "version": None}

    def frame(self, spark: SparkSession, columns: Sequence[str]) -> DataFrame:
        """Some columns of its rows, as they are now."""
        assert self._schema is not None
        return frame_of(spark, self._database, self._table, self._schema, columns)

    def _move(self, connection: Connection, files: Sequence[WrittenFile], batch: int) -> bool:
        from psycopg import sql

        with connection.transaction():
            connection.execute(
                "SELECT set_config('synchronous_commit', 'on', true) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
            known = self._known(connection, lock=True)
            if known is None:
                raise SpecMismatch(str(self), f"it is gone, or gone from {self._batches}")
            if known[0] is not None and batch <= known[0]:
                return False
            for each in files:
                stage = self._table.beside(each.path)
                self._move_one(connection, stage, each.rows)
                connection.execute(sql.SQL("DROP TABLE {}").format(stage.quoted))
            connection.execute(
                sql.SQL(
                    "UPDATE {} SET batch = %s, rows = rows + %s, written_at = now() "
                    "WHERE table_name = %s"
                ).format(self._batches.quoted),
                (batch, sum(each.rows for each in files), self._table.name),
            )
        return True

    def _move_one(self, connection: Connection, stage: TableName, rows: int) -> None:
        from psycopg import sql

        if self._kind(connection, stage) is None:
            raise DatabaseAway(str(self), "has lost what tasks copied: the batch is written again")
        columns = sql.SQL(", ").join(
            sql.Identifier(name) for name in self._columns(connection, stage)
        )
        done = connection.execute(
            sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(
                self._table.quoted, columns, columns, stage.quoted
            )
        )
        if done.rowcount != rows:
            raise DatabaseAway(
                str(self),
                f"has {done.rowcount} of the {rows} rows that a task copied, as it was started "
                "anew: the batch is written again",
            )

    def _has(self, batch: int) -> bool:
        try:
            last = self.last_batch()
        except TableError:
            return False
        return last is not None and batch <= last

    def _clear(self) -> int:
        """Remove the tables of tasks that are in no list; what is wrong with that can wait."""
        from psycopg import sql

        try:
            with self._database.opened() as connection:
                left = _rows(
                    connection,
                    "SELECT relname FROM pg_class WHERE relnamespace = "
                    "(SELECT oid FROM pg_namespace WHERE nspname = coalesce(%s, current_schema())) "
                    "AND relkind = 'r' AND starts_with(relname, %s)",
                    self._table.schema,
                    self._prefix,
                )
                connection.execute("SET lock_timeout = '1s'")
                for (name,) in left:
                    quoted = self._table.beside(name).quoted
                    connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(quoted))
        except TableError as error:
            log.info("left for later table=%s reason=%s", self, error)
            return 0
        return len(left)

    def _known(
        self, connection: Connection, *, lock: bool = False
    ) -> tuple[int | None, int] | None:
        """The last batch and how many rows there are; None if the table is not there as ours."""
        from psycopg import sql

        if (
            self._kind(connection, self._batches) is None
            or self._kind(connection, self._table) is None
        ):
            return None
        asked = sql.SQL("SELECT batch, rows FROM {} WHERE table_name = %s AND table_id = %s{}")
        found = _rows(
            connection,
            asked.format(self._batches.quoted, sql.SQL(" FOR UPDATE" if lock else "")),
            self._table.name,
            self._id,
        )
        return (found[0][0], found[0][1]) if found else None

    def _make(self, connection: Connection, schema: pa.Schema) -> None:
        from psycopg import sql

        columns = sql.SQL(", ").join(column_of(each) for each in schema)
        connection.execute(sql.SQL("CREATE TABLE {} ({})").format(self._table.quoted, columns))
        connection.execute(
            sql.SQL(
                "INSERT INTO {} AS them (table_name, table_id, kept_in) VALUES (%s, %s, %s) "
                "ON CONFLICT (table_name) DO UPDATE SET table_id = excluded.table_id, "
                "kept_in = excluded.kept_in, batch = NULL, rows = 0, written_at = NULL"
            ).format(self._batches.quoted),
            (self._table.name, self._id, self._kept_in),
        )

    def _widen(self, connection: Connection, schema: pa.Schema) -> None:
        from psycopg import sql

        there = self._columns(connection, self._table)
        added = []
        for field in schema:
            is_now = there.get(field.name)
            wanted = type_of(field.type)
            if is_now is None:
                added.append(field)
            elif is_now != wanted:
                raise SpecMismatch(
                    str(self), f"column {field.name} is {is_now}, not {wanted}: {ONLY_MORE}"
                )
        for field in added:
            connection.execute(
                sql.SQL("ALTER TABLE {} ADD COLUMN {}").format(self._table.quoted, column_of(field))
            )
        if added:
            log.info("columns added table=%s columns=%s", self, [each.name for each in added])

    def _taken(self, connection: Connection) -> NotATable:
        from psycopg import sql

        kind = self._kind(connection, self._table) or "r"
        if kind not in ("r", "p"):
            return NotATable(
                str(self), f"is a {_KINDS.get(kind, 'something')}, no table: choose another --table"
            )
        owner = []
        if self._kind(connection, self._batches) is not None:
            owner = _rows(
                connection,
                sql.SQL("SELECT kept_in FROM {} WHERE table_name = %s").format(
                    self._batches.quoted
                ),
                self._table.name,
            )
        if owner:
            return NotATable(
                str(self), f"is filled by {owner[0][0]}: follow it there, or choose another --table"
            )
        return NotATable(str(self), "is a table that follows no topic: choose another --table")

    def _kind(self, connection: Connection, table: TableName) -> str | None:
        """What PostgreSQL has under a name, by its letter; None if nothing."""
        quoted = table.quoted.as_string(connection)
        found = _rows(
            connection, "SELECT relkind FROM pg_class WHERE oid = to_regclass(%s)", quoted
        )
        if not found:
            return None
        kind = found[0][0]
        return kind.decode() if isinstance(kind, bytes) else str(kind)

    def _columns(self, connection: Connection, table: TableName) -> dict[str, str]:
        found = _rows(
            connection,
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            table.quoted.as_string(connection),
        )
        return {str(name): str(kind) for name, kind in found}


def _rows(connection: Connection, asked: Any, *given: Any) -> list[tuple[Any, ...]]:
    return connection.execute(asked, given).fetchall()
