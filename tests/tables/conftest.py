"""Messages as the connector hands them over, without a Spark; and a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from tests.tables.support.postgres import PostgresServer

from rocketpipe.tables.columns import DIGEST, OF_MESSAGE

Messages = Callable[..., pa.RecordBatch]
Psql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def messages() -> Messages:
    """``messages([b"{}", None], first=7)``: a batch of one queue."""

    def made(bodies: Sequence[bytes | None], *, first: int = 0, day: int = 1) -> pa.RecordBatch:
        count = len(bodies)
        stored = datetime(2026, 5, day, 12, tzinfo=UTC)
        columns = {
            "broker": pa.array(["broker-a"] * count, pa.string()),
            "queue_id": pa.array([2] * count, pa.int32()),
            "queue_offset": pa.array(range(first, first + count), pa.int64()),
            "store_timestamp": pa.array([stored] * count, OF_MESSAGE.field(3).type),
            "message_id": pa.array([f"id-{first + row}" for row in range(count)]),
            "keys": pa.array([["k"]] * count, pa.list_(pa.string())),
            "tags": pa.nulls(count, pa.string()),
            "body": pa.array(bodies, pa.binary()),
            DIGEST: pa.array([hash(body) for body in bodies], pa.int64()),
        }
        return pa.RecordBatch.from_pydict(columns)

    return made


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The server itself: who hurts it has it run again."""
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def address(postgres_server: PostgresServer) -> str:
    """The address of a database that is empty."""
    return postgres_server.new_database()


@pytest.fixture
def psql(address: str) -> Psql:
    """``psql("SELECT …")``: what the database answers, if it does."""

    def asked(statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(address, autocommit=True) as connection:
            done = connection.execute(statement)  # type: ignore[arg-type]
            return done.fetchall() if done.description else []

    return asked
