"""A PostgreSQL as driver and tasks reach it, and what may be wrong with it, in a line each.

The address has no password: it is kept with the table and travels in plans. Whoever connects takes
it from its own PGPASSWORD, PGPASSFILE or ~/.pgpass, or from a file that is named.

A server that has stopped answering holds a connection open for ever. So while one is in use, others
are opened every half minute; when that fails twice in a row, the first is cut.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketpipe.errors import ConfigError
from rocketpipe.tables.errors import DatabaseAway, DatabaseRefused, TableError

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

#: How long a server may be silent before it is asked whether it is there at all.
PATIENCE_S: float = 30.0
#: How often in a row nobody may answer: a busy server may miss one.
_SILENT_TIMES: Final = 2
_CONNECT_S: Final = 10
_SECRETS: Final = ("password", "sslpassword")
#: What a server says that takes nobody just now, though nothing is wrong with who asks.
_BUSY: Final = ("starting up", "shutting down", "in recovery", "too many", "remaining connection")
#: Beginnings of SQLSTATE that pass: connections, conflicts, resources, an operator's hand.
_PASSING: Final = ("08", "40", "53", "57P", "55P03", "58030")
_SAID: Final = {
    "53100": "has no space left: make room on its disk",
    "53300": "has no connection left: raise max_connections, or stop who holds them",
    "55P03": "has the table locked by another session: end that (pg_stat_activity shows it)",
    "57P01": "was shut down",
    "57P02": "crashed",
    "57P03": "is starting, or shutting down",
}


@dataclass(frozen=True, slots=True)
class Database:
    """Where a PostgreSQL is; it holds no secret."""

    #: ``postgresql://USER@HOST:PORT/NAME?…``, as libpq takes it.
    address: str
    #: A file that has the password, which driver and executors see under the same path.
    password_file: str | None = None

    def __str__(self) -> str:
        return self.address.partition("?")[0]

    def check(self) -> None:
        """See that the address is one, and has no password.

        Raises:
            ConfigError: If it is none, or has one.
        """
        psycopg = _psycopg()
        from psycopg.conninfo import conninfo_to_dict

        try:
            parts = conninfo_to_dict(self.address)
        except psycopg.Error as error:
            raise ConfigError("--to", f"is no address of PostgreSQL: {_line(error)}") from error
        for name in _SECRETS:
            if name in parts:
                raise ConfigError(
                    "--to",
                    f"has a {name} in it, which every list of processes shows: leave it out, and "
                    "give it by PGPASSWORD, PGPASSFILE or --password-file",
                )

    @contextmanager
    def opened(self) -> Iterator[Connection]:
        """A connection for the length of the block, in which each statement is by itself.

        Raises:
            DatabaseAway: If it is, or goes away; trying again may help.
            DatabaseRefused: If it refuses what is asked.
        """
        with self.explained():
            connection = self._connect(_CONNECT_S)
            with connection, self._watched(connection):
                yield connection

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Have what PostgreSQL says in the block raised as an error of ours."""
        psycopg = _psycopg()

        try:
            yield
        except psycopg.Error as error:
            raise problem(str(self), error) from error

    def answers(self) -> bool:
        """Whether anybody is there, be it to refuse."""
        psycopg = _psycopg()

        try:
            self._connect(_CONNECT_S).close()
        except psycopg.Error as error:
            return "FATAL" in str(error)
        return True

    def _connect(self, timeout_s: int) -> Connection:
        psycopg = _psycopg()
        from psycopg.conninfo import conninfo_to_dict

        given: dict[str, Any] = {"application_name": "rocketpipe", "client_encoding": "UTF8"}
        if "PGCONNECT_TIMEOUT" not in os.environ:
            given["connect_timeout"] = timeout_s
        parts = conninfo_to_dict(self.address)
        given = {name: value for name, value in given.items() if name not in parts}
        if self.password_file is not None:
            given["password"] = self._password()
        made: Connection = psycopg.connect(self.address, autocommit=True, **given)
        made.execute("SET lock_timeout = '60s'")
        return made

    def _password(self) -> str:
        assert self.password_file is not None
        try:
            return Path(self.password_file).read_text().rstrip("\r\n")
        except OSError as error:
            raise DatabaseRefused(
                str(self),
                f"the password cannot be read from {self.password_file}: {error.strerror}",
            ) from error

    @contextmanager
    def _watched(self, connection: Connection) -> Iterator[None]:
        """Cut a connection to a server that answers nobody any more."""
        done = threading.Event()
        cut = threading.Event()

        def watch() -> None:
            silent = 0
            while not done.wait(PATIENCE_S):
                silent = 0 if self.answers() else silent + 1
                if silent == _SILENT_TIMES and not done.is_set():
                    cut.set()
                    with suppress(OSError), socket.socket(fileno=os.dup(number)) as wire:
                        wire.shutdown(socket.SHUT_RDWR)
                    return

        number = connection.fileno()
        watcher = threading.Thread(target=watch, name="rocketpipe-postgres", daemon=True)
        watcher.start()
        try:
            yield
        except Exception as error:
            if cut.is_set():
                raise DatabaseAway(str(self), "does not answer any more") from error
            raise
        finally:
            done.set()


@dataclass(frozen=True, slots=True)
class TableName:
    """A table of a database, in a schema or in the one that the user's search path has first."""

    schema: str | None
    name: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        """``orders`` or ``sales.orders``."""
        schema, _, name = text.rpartition(".")
        return cls(schema or None, name)

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name

    def beside(self, name: str) -> TableName:
        """Another table of the same schema."""
        return TableName(self.schema, name)

    @property
    def quoted(self) -> Any:
        """For a statement."""
        from psycopg import sql

        return sql.Identifier(self.schema, self.name) if self.schema else sql.Identifier(self.name)


def problem(place: str, error: psycopg.Error) -> TableError:
    """What PostgreSQL said, as an error of ours: one that passes, or one that does not."""
    state = error.sqlstate
    said = _line(error)
    if state is None:
        if "no password supplied" in str(error):
            return DatabaseRefused(
                place, "wants a password: give it by PGPASSWORD, PGPASSFILE or --password-file"
            )
        refused = "FATAL" in str(error) and not any(each in str(error) for each in _BUSY)
        if refused:
            return DatabaseRefused(place, f"does not let us in: {said}")
        return DatabaseAway(place, f"cannot be reached: {said}")
    reason = _SAID.get(state, f"says: {said}")
    if state.startswith(_PASSING):
        return DatabaseAway(place, reason)
    return DatabaseRefused(place, f"{reason} ({state})")


def _line(error: psycopg.Error) -> str:
    """The first line, without what it was the answer to."""
    text = error.diag.message_primary or str(error)
    line = text.strip().split("\n")[0]
    return line.rpartition("FATAL:")[2].strip() or line


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise ConfigError("psycopg", "is not installed: pip install 'psycopg[binary]'") from error
    return psycopg
