"""A table of a PostgreSQL: rows and the batch's number in one transaction.

Tasks copy rows to tables of their own (`rocketpipe.tables.sinks.copying`); the driver moves them,
in the transaction that sets the number in ``rocketpipe_batches``
(`rocketpipe.tables.sinks.postgres_table`). The row of the table there is locked first, so two
drivers come one after the other, and the second finds the number. Who loses the connection at
COMMIT looks the number up. What is moved is counted: tasks' tables are not logged, and a server
that crashed has emptied them; those of a replay are, as it is decided before they are moved.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rocketpipe.tables.errors import DatabaseAway, DatabaseRefused, SpecMismatch, TableError
from rocketpipe.tables.files import WrittenFile
from rocketpipe.tables.sinks.copying import StagingTables
from rocketpipe.tables.sinks.database import Database, TableName
from rocketpipe.tables.sinks.postgres_rows import Pages, pages_of
from rocketpipe.tables.sinks.postgres_table import Known, PostgresTable, fetched
from rocketpipe.tables.stored import Stored

if TYPE_CHECKING:
    from rocketpipe.tables.sinks.database import Connection

log = logging.getLogger("rocketpipe.tables")

#: What the names of tasks' tables begin with: of a batch, and of rows beside the batches.
STAGING: Final = "rocketpipe_stage_"
MENDING: Final = "rocketpipe_mend_"


class PostgresSink:
    """A table of a PostgreSQL, and the batches of one query that it has."""

    def __init__(
        self,
        database: Database,
        table: TableName,
        table_id: str,
        kept_in: str,
        schema: pa.Schema,
    ) -> None:
        """``table_id`` is the name under which its batches are numbered.

        ``schema`` has the columns that are ours.
        """
        self._schema = schema
        self._database = database
        self._table = PostgresTable(database, table, table_id, kept_in)
        self._name = table
        self._key = blake2b(f"{table_id} {table}".encode(), digest_size=6).hexdigest()

    def __str__(self) -> str:
        return str(self._table)

    @property
    def rows_to(self) -> StagingTables:
        """Tables that nobody but their task writes."""
        return StagingTables(self._database, self._name.schema, f"{STAGING}{self._key}_")

    @property
    def mends_to(self) -> StagingTables:
        """The same, and a server that crashes still has them."""
        return StagingTables(
            self._database, self._name.schema, f"{MENDING}{self._key}_", is_logged=True
        )

    def check_free(self) -> None:
        """See that a table can be made, and that there is none of that name.

        Raises:
            NotATable: If there is.
            DatabaseRefused: If the database cannot have ours.
            DatabaseAway: If it is.
        """
        with self._database.opened() as connection:
            [(encoding, schema)] = fetched(
                connection,
                "SELECT current_setting('server_encoding'), coalesce(%s, current_schema())",
                self._name.schema,
            )
            if encoding != "UTF8":
                raise DatabaseRefused(
                    str(self), f"the database keeps text as {encoding}: make one with UTF8"
                )
            may = fetched(
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
            if self._table.kind(connection, self._name) is not None:
                raise self._table.taken(connection)

    def last_batch(self) -> int | None:
        """The number of the last batch that the table has."""
        known = self._known()
        return None if known is None else known.batch

    def prepare(self, schema: pa.Schema) -> None:
        """Make the table, or add columns to it.

        Raises:
            NotATable: If it is somebody else's.
            SpecMismatch: If it has other columns.
        """
        with self._database.opened() as connection, connection.transaction():
            self._table.make_batches(connection)
            if self._table.kind(connection, self._name) is None:
                self._table.make(connection, schema)
                return
            if self._table.known(connection) is None:
                raise self._table.taken(connection)
            self._table.widen(connection, schema)

    def commit(
        self, files: Sequence[WrittenFile], batch: int, notes: Mapping[str, str] | None = None
    ) -> bool:
        """Move rows with the batch's number; False if the table has that batch.

        Raises:
            DatabaseAway: If the server was away; whether the batch is there has been looked up.
            DatabaseRefused: If it refuses them.
        """

        def is_done(known: Known) -> bool:
            return known.batch is not None and batch <= known.batch

        def change(connection: Connection, known: Known) -> Known:
            return known._replace(batch=batch, rows=known.rows + self._take(connection, files))

        return self._once(is_done, change)

    def has_named(self, name: str) -> bool:
        """Whether rows were added, or replaced, under a name, and nothing since."""
        known = self._known()
        return known is not None and known.mended_by == name

    def add_named(self, files: Sequence[WrittenFile], name: str) -> None:
        """Move rows under a name of their own, unless that was done."""

        def change(connection: Connection, known: Known) -> Known:
            rows = known.rows + self._take(connection, files)
            return known._replace(rows=rows, mended_by=name)

        self._once(lambda known: known.mended_by == name, change)

    def replace_named(self, files: Sequence[WrittenFile], name: str) -> None:
        """Have these rows and no others, unless that was done."""
        from psycopg import sql

        def change(connection: Connection, known: Known) -> Known:
            # Not TRUNCATE: who has begun to read goes on with what was there.
            connection.execute(sql.SQL("DELETE FROM {}").format(self._name.quoted))
            return known._replace(rows=self._take(connection, files), mended_by=name)

        self._once(lambda known: known.mended_by == name, change)

    def written(self, files: Sequence[WrittenFile]) -> Sequence[Pages]:
        """What tasks wrote and the table does not have yet, to be read."""
        tables = (self._name.beside(each.path) for each in files)
        return [page for table in tables for page in pages_of(self._database, table)]

    def take_over(self, new: PostgresSink) -> None:
        """Have the rows of another table for its own, and that one gone, in one transaction.

        It stays the same table to PostgreSQL, with its indexes, rights and views.

        Raises:
            NotATable: If the table has become somebody else's.
            SpecMismatch: If a column of the user's is in the way, or the new one is gone.
            DatabaseRefused: If something depends on a column that is to be another.
        """
        from psycopg import sql

        old, other = self._table, new._table
        mine = PostgresTable(self._database, self._name, other.id, old.kept_in)
        with self._database.opened() as connection, connection.transaction():
            if old.owner(connection) == other.id:
                return
            known = other.known(connection, lock=True)
            if known is None:
                raise SpecMismatch(str(other), f"it is gone, or gone from {other.batches}")
            if old.kind(connection, self._name) is None:
                old.make(connection, new._schema)
            elif old.known(connection, lock=True) is None:
                raise old.taken(connection)
            connection.execute(sql.SQL("DELETE FROM {}").format(self._name.quoted))
            old.fit(connection, self._schema.names, other)
            mine.take(connection, other.name, known.rows)
            other.drop(connection)
            mine.note(connection, known)
        new.clear()
        self.clear()

    def drop(self) -> None:
        """Have no such table, whoever has filled it."""
        with self._database.opened() as connection, connection.transaction():
            self._table.drop(connection)

    def discard(self, files: Sequence[WrittenFile]) -> None:
        """Remove what tasks copied."""
        self.clear()

    def upkeep(self, *, keep_ms: int, compact: bool) -> Mapping[str, Any]:
        """Remove what tasks that died have copied; PostgreSQL looks after the rest itself."""
        return {"removed": self.clear()}

    def figures(self) -> Mapping[str, Any]:
        """Rows that it has got, and bytes with all that belongs to the table."""
        from psycopg import sql

        with self._database.opened() as connection:
            known = self._table.known(connection)
            if known is None:
                return {"rows": 0, "files": None, "bytes": 0, "version": None}
            name = self._name.quoted.as_string(connection)
            [(size,)] = fetched(connection, sql.SQL("SELECT pg_total_relation_size(%s)"), name)
        return {"rows": known.rows, "files": None, "bytes": size, "version": None}

    def stored(self) -> Stored:
        """Its rows: tasks read them page by page, and also those that come meanwhile."""
        known = self._known()
        if known is None:
            return Stored()
        return Stored(known.batch, pages_of(self._database, self._name), is_growing=True)

    def _known(self) -> Known | None:
        with self._database.opened() as connection:
            return self._table.known(connection)

    def _once(
        self,
        is_done: Callable[[Known], bool],
        change: Callable[[Connection, Known], Known],
    ) -> bool:
        """Change the table in one transaction; False if that was done before.

        Raises:
            DatabaseAway: If the server was away; whether it is done has been looked up.
            DatabaseRefused: If it refuses something.
        """
        try:
            with self._database.opened() as connection, connection.transaction():
                connection.execute(
                    "SELECT set_config('synchronous_commit', 'on', true) "
                    "WHERE current_setting('synchronous_commit') = 'off'"
                )
                known = self._table.known(connection, lock=True)
                if known is None:
                    raise SpecMismatch(str(self), f"it is gone, or gone from {self._table.batches}")
                is_new = not is_done(known)
                if is_new:
                    self._table.note(connection, change(connection, known))
        except DatabaseAway:
            if not self._found(is_done):
                raise
            log.info("change found table=%s after its answer was lost", self)
            is_new = True
        self.clear()
        return is_new

    def _take(self, connection: Connection, files: Sequence[WrittenFile]) -> int:
        for each in files:
            self._table.take(connection, self._name.beside(each.path), each.rows)
        return sum(each.rows for each in files)

    def _found(self, is_done: Callable[[Known], bool]) -> bool:
        try:
            known = self._known()
        except TableError:
            return False
        return known is not None and is_done(known)

    def clear(self) -> int:
        """Remove the tables of tasks that are in no list; what is wrong with that can wait.

        Of a task that was killed the server may not know yet, and keeps its table locked.
        """
        from psycopg import sql

        removed = 0
        try:
            with self._database.opened() as connection:
                left = fetched(
                    connection,
                    "SELECT relname FROM pg_class WHERE relnamespace = "
                    "(SELECT oid FROM pg_namespace WHERE nspname = coalesce(%s, current_schema())) "
                    "AND relkind = 'r' AND (starts_with(relname, %s) OR starts_with(relname, %s))",
                    self._name.schema,
                    self.rows_to.prefix,
                    self.mends_to.prefix,
                )
                connection.execute("SET lock_timeout = '1s'")
                for (name,) in left:
                    going = self._name.beside(name)
                    try:
                        with self._database.explained():
                            drop = sql.SQL("DROP TABLE IF EXISTS {}").format(going.quoted)
                            connection.execute(drop)
                        removed += 1
                    except DatabaseAway as error:
                        log.info("left for later table=%s reason=%s", going, error)
        except TableError as error:
            log.info("left for later table=%s reason=%s", self, error)
        return removed
