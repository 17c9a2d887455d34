"""A PostgreSQL, and what may be wrong with it."""

from __future__ import annotations

import pickle
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.tables.support.postgres import PostgresServer

from rocketpipe.errors import ConfigError
from rocketpipe.tables.errors import DatabaseAway, DatabaseRefused
from rocketpipe.tables.sinks import database
from rocketpipe.tables.sinks.copying import StagingTables
from rocketpipe.tables.sinks.database import Database, TableName, problem

Psql = Callable[..., list[tuple[Any, ...]]]


def test_a_password_is_in_no_address() -> None:
    Database("postgresql://me@db:5433/shop?sslmode=verify-full").check()
    Database("postgresql:///?service=shop").check()
    for secret in ("postgresql://me:hush@db/shop", "postgresql://db/shop?password=hush"):
        with pytest.raises(ConfigError, match="PGPASSFILE or --password-file") as refused:
            Database(secret).check()
        assert "hush" not in str(refused.value)
    with pytest.raises(ConfigError, match="is no address of PostgreSQL"):
        Database("postgresql://db/shop?colour=red").check()


def test_the_password_is_taken_where_the_connection_is_made(
    address: str, psql: Psql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    psql("CREATE ROLE locked LOGIN PASSWORD 'hush-hush'")
    try:
        locked = address.replace("postgres@", "locked@")
        with pytest.raises(DatabaseRefused, match="wants a password: give it by PGPASS"):
            _ask(Database(locked))
        file = tmp_path / "secret"
        with pytest.raises(DatabaseRefused, match=r"cannot be read from .*: No such file"):
            _ask(Database(locked, str(file)))
        file.write_text("wrong\n")
        with pytest.raises(DatabaseRefused, match=r"let us in: password authentication failed"):
            _ask(Database(locked, str(file)))
        file.write_text("hush-hush\n")
        assert _ask(Database(locked, str(file))) == "locked"
        travels = pickle.dumps(StagingTables(Database(locked, str(file)), None, "x"))
        assert b"hush" not in travels
        monkeypatch.setenv("PGPASSWORD", "hush-hush")
        assert _ask(Database(locked)) == "locked"
    finally:
        psql("DROP ROLE locked")


def test_a_server_that_is_away_is_said_in_a_line(postgres_server: PostgresServer) -> None:
    with pytest.raises(DatabaseAway, match=r"^postgresql://me@127\.0\.0\.1:1/x: cannot be") as away:
        _ask(Database("postgresql://me@127.0.0.1:1/x"))
    assert away.value.retryable
    assert "\n" not in str(away.value)
    with pytest.raises(DatabaseRefused, match='does not let us in: database "nope" does not exist'):
        _ask(Database(postgres_server.address("nope")))


def test_a_server_that_stops_answering_is_left(
    address: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "PATIENCE_S", 0.2)
    monkeypatch.setattr(database, "_CONNECT_S", 1)
    with (
        pytest.raises(DatabaseAway, match="does not answer any more"),
        Database(address).opened() as connection,
        postgres_server.frozen(),
    ):
        connection.execute("SELECT 1")
    assert _ask(Database(address)) == "postgres"


def test_a_statement_that_takes_long_is_waited_for(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "PATIENCE_S", 0.05)
    with Database(address).opened() as connection:
        begun_s = time.monotonic()
        connection.execute("SELECT pg_sleep(0.4)")
    assert time.monotonic() - begun_s >= 0.4


def test_what_passes_is_told_from_what_does_not() -> None:
    for kind, type_, said in (
        (psycopg.errors.DiskFull, DatabaseAway, "has no space left"),
        (psycopg.errors.LockNotAvailable, DatabaseAway, "locked by another session"),
        (psycopg.errors.AdminShutdown, DatabaseAway, "was shut down"),
        (psycopg.errors.SerializationFailure, DatabaseAway, "says: no"),
        (psycopg.errors.UndefinedTable, DatabaseRefused, r"says: no \(42P01\)"),
    ):
        found = problem("db", kind("no"))
        assert type(found) is type_
        assert re.search(said, str(found))
    starting = psycopg.OperationalError("FATAL:  the database system is starting up")
    assert isinstance(problem("db", starting), DatabaseAway)


def test_names_of_tables() -> None:
    assert TableName.parse("sales.orders") == TableName("sales", "orders")
    assert str(TableName.parse("orders").beside("other")) == "other"


def _ask(one: Database) -> str:
    with one.opened() as connection:
        found = connection.execute("SELECT current_user").fetchone()
    assert found is not None
    return str(found[0])
