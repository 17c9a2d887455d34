"""A table of a PostgreSQL as the database has it: its columns, and what is noted of its batches.

What is noted is a row of ``rocketpipe_batches``, in the same schema:

    table_name   orders            the table
    table_id     <uuid>            under which its batches are numbered
    batch        41                the last one that it has
    rows         1200345           how many rows it has got
    written_at   …                 when
    kept_in      …                 the directory of its checkpoint, and on which machine
    mended_by    replay-<uuid>     the last that added or replaced rows beside its batches

All of it is asked and done on a connection that is given, in whatever transaction that has.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from rocketpipe.tables.columns import ONLY_MORE
from rocketpipe.tables.errors import DatabaseAway, NotATable, SpecMismatch
from rocketpipe.tables.sinks.copying import column_of, type_of
from rocketpipe.tables.sinks.database import Database, TableName

if TYPE_CHECKING:
    from rocketpipe.tables.sinks.database import Connection

log = logging.getLogger("rocketpipe.tables")

BATCHES: Final = "rocketpipe_batches"
_MAKE_BATCHES: Final = """
    CREATE TABLE IF NOT EXISTS {} (
        table_name text PRIMARY KEY,
        table_id text NOT NULL,
        batch bigint,
        rows bigint NOT NULL DEFAULT 0,
        written_at timestamptz,
        kept_in text NOT NULL,
        mended_by text
    )
"""
#: What a name is, in PostgreSQL's letters.
_KINDS: Final = {"v": "view", "m": "materialised view", "f": "foreign table", "i": "index"}


class Known(NamedTuple):
    """What is noted of a table: its last batch, its rows, and who mended it last."""

    batch: int | None
    rows: int
    mended_by: str | None


class PostgresTable:
    """A table of one name, filled under one id."""

    def __init__(self, database: Database, name: TableName, table_id: str, kept_in: str) -> None:
        self.name = name
        self.batches = name.beside(BATCHES)
        self.id = table_id
        self._database = database
        self.kept_in = kept_in

    def __str__(self) -> str:
        return f"{self._database} {self.name}"

    @property
    def _kept(self) -> str:
        return f"{self.kept_in} on {socket.gethostname()}"

    def known(self, connection: Connection, *, lock: bool = False) -> Known | None:
        """What is noted of it; None if it is not there, or not as ours."""
        from psycopg import sql

        if self.kind(connection, self.batches) is None or self.kind(connection, self.name) is None:
            return None
        asked = sql.SQL(
            "SELECT batch, rows, to_jsonb(noted) ->> 'mended_by' FROM {} AS noted "
            "WHERE table_name = %s AND table_id = %s{}"
        )
        found = fetched(
            connection,
            asked.format(self.batches.quoted, sql.SQL(" FOR UPDATE" if lock else "")),
            self.name.name,
            self.id,
        )
        return Known(*found[0]) if found else None

    def note(self, connection: Connection, known: Known) -> None:
        """Note something else of it."""
        from psycopg import sql

        connection.execute(
            sql.SQL(
                "UPDATE {} SET batch = %s, rows = %s, mended_by = %s, written_at = now(), "
                "table_id = %s, kept_in = %s WHERE table_name = %s"
            ).format(self.batches.quoted),
            (*known, self.id, self._kept, self.name.name),
        )

    def owner(self, connection: Connection) -> str | None:
        """The id of who fills the table of that name, if somebody does."""
        from psycopg import sql

        asked = sql.SQL("SELECT table_id FROM {} WHERE table_name = %s FOR UPDATE")
        found = fetched(connection, asked.format(self.batches.quoted), self.name.name)
        return str(found[0][0]) if found else None

    def make_batches(self, connection: Connection) -> None:
        """Have somewhere to note."""
        from psycopg import sql

        connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (BATCHES,))
        if self.kind(connection, self.batches) is None:
            connection.execute(sql.SQL(_MAKE_BATCHES).format(self.batches.quoted))
        elif "mended_by" not in self.columns(connection, self.batches):
            connection.execute(
                sql.SQL("ALTER TABLE {} ADD COLUMN mended_by text").format(self.batches.quoted)
            )

    def make(self, connection: Connection, schema: pa.Schema) -> None:
        """Have the table, without a row."""
        from psycopg import sql

        columns = sql.SQL(", ").join(column_of(each) for each in schema)
        connection.execute(sql.SQL("CREATE TABLE {} ({})").format(self.name.quoted, columns))
        connection.execute(
            sql.SQL(
                "INSERT INTO {} AS them (table_name, table_id, kept_in) VALUES (%s, %s, %s) "
                "ON CONFLICT (table_name) DO UPDATE SET table_id = excluded.table_id, "
                "kept_in = excluded.kept_in, batch = NULL, rows = 0, written_at = NULL, "
                "mended_by = NULL"
            ).format(self.batches.quoted),
            (self.name.name, self.id, self._kept),
        )

    def widen(self, connection: Connection, schema: pa.Schema) -> None:
        """Have the columns that it lacks.

        Raises:
            SpecMismatch: If one that it has is of another type.
        """
        from psycopg import sql

        there = self.columns(connection, self.name)
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
                sql.SQL("ALTER TABLE {} ADD COLUMN {}").format(self.name.quoted, column_of(field))
            )
        if added:
            log.info("columns added table=%s columns=%s", self, [each.name for each in added])

    def taken(self, connection: Connection) -> NotATable:
        """What is wrong with a name that something else has."""
        from psycopg import sql

        kind = self.kind(connection, self.name) or "r"
        if kind not in ("r", "p"):
            return NotATable(
                str(self), f"is a {_KINDS.get(kind, 'something')}, no table: choose another --table"
            )
        owner = []
        if self.kind(connection, self.batches) is not None:
            owner = fetched(
                connection,
                sql.SQL("SELECT kept_in FROM {} WHERE table_name = %s").format(self.batches.quoted),
                self.name.name,
            )
        if owner:
            return NotATable(
                str(self), f"is filled by {owner[0][0]}: follow it there, or choose another --table"
            )
        return NotATable(str(self), "is a table that follows no topic: choose another --table")

    def kind(self, connection: Connection, table: TableName) -> str | None:
        """What PostgreSQL has under a name, by its letter; None if nothing."""
        quoted = table.quoted.as_string(connection)
        found = fetched(
            connection, "SELECT relkind FROM pg_class WHERE oid = to_regclass(%s)", quoted
        )
        if not found:
            return None
        kind = found[0][0]
        return kind.decode() if isinstance(kind, bytes) else str(kind)

    def columns(self, connection: Connection, table: TableName) -> dict[str, str]:
        """The columns of a table, with the names of their types."""
        found = fetched(
            connection,
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            table.quoted.as_string(connection),
        )
        return {str(name): str(kind) for name, kind in found}

    def take(self, connection: Connection, stage: TableName, rows: int) -> None:
        """Move the rows of a table that a task made here, and have that gone.

        Raises:
            DatabaseAway: If they are not as many as the task copied.
        """
        from psycopg import sql

        if self.kind(connection, stage) is None:
            raise DatabaseAway(str(self), "has lost what tasks copied: the batch is written again")
        columns = sql.SQL(", ").join(
            sql.Identifier(name) for name in self.columns(connection, stage)
        )
        done = connection.execute(
            sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(
                self.name.quoted, columns, columns, stage.quoted
            )
        )
        if done.rowcount != rows:
            raise DatabaseAway(
                str(self),
                f"has {done.rowcount} of the {rows} rows that a task copied, as it was started "
                "anew: the batch is written again",
            )
        connection.execute(sql.SQL("DROP TABLE {}").format(stage.quoted))

    def fit(self, connection: Connection, columns: Iterable[str], wanted: PostgresTable) -> None:
        """Have the columns of another table in the place of ``columns``; others stay.

        Raises:
            SpecMismatch: If one of the others is in the way.
        """
        from psycopg import sql

        there = self.columns(connection, self.name)
        now = wanted.columns(connection, wanted.name)
        for name in columns:
            if name in there and there[name] != now.get(name):
                connection.execute(
                    sql.SQL("ALTER TABLE {} DROP COLUMN {}").format(
                        self.name.quoted, sql.Identifier(name)
                    )
                )
                del there[name]
        for name, kind in now.items():
            if name not in there:
                connection.execute(
                    sql.SQL("ALTER TABLE {} ADD COLUMN {} {}").format(
                        self.name.quoted, sql.Identifier(name), sql.SQL(kind)
                    )
                )
            elif there[name] != kind:
                raise SpecMismatch(
                    str(self), f"it has a column {name} of yours, which is {there[name]}"
                )
        was, now_required = self._required(connection), wanted._required(connection)
        for name in now.keys() & (was ^ now_required):
            rule = sql.SQL("SET" if name in now_required else "DROP")
            connection.execute(
                sql.SQL("ALTER TABLE {} ALTER COLUMN {} {} NOT NULL").format(
                    self.name.quoted, sql.Identifier(name), rule
                )
            )

    def _required(self, connection: Connection) -> set[str]:
        """The columns that are never NULL."""
        found = fetched(
            connection,
            "SELECT attname FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND attnotnull AND NOT attisdropped",
            self.name.quoted.as_string(connection),
        )
        return {str(name) for (name,) in found}

    def drop(self, connection: Connection) -> None:
        """Have neither the table nor a note of it."""
        from psycopg import sql

        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(self.name.quoted))
        if self.kind(connection, self.batches) is not None:
            connection.execute(
                sql.SQL("DELETE FROM {} WHERE table_name = %s").format(self.batches.quoted),
                (self.name.name,),
            )


def fetched(connection: Connection, asked: Any, *given: Any) -> list[tuple[Any, ...]]:
    """All rows that a statement gives."""
    return connection.execute(asked, given).fetchall()
