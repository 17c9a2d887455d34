"""Whoever fills a table dies at a step, by kill -9; who goes on has each message in it once.

One step a kind of table here; all of them in `make soak`. What runs is the driver's part and the
tasks' as they are, without a Spark between: `tests.tables.support.deaths`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from tests.tables.support import deaths, mend_deaths
from tests.tables.support.postgres import PostgresServer

from rocketpipe import Producer
from rocketpipe.testing import cluster

FORMS = tuple(deaths.WATCHED)
CITIES = ds.partitioning(pa.schema([("city", pa.string())]), flavor="hive")
#: On both sides of what makes the second commit one, on Spark.
AROUND = {
    "delta": tuple(f"{when} DeltaTable.create_write_transaction 2" for when in ("before", "after")),
    "parquet": ("before Path.rename 2", "after Path.rename 3"),
    "iceberg": tuple(f"{when} SqlCatalog._write_metadata 5" for when in ("before", "after")),
    "postgres": tuple(f"{when} Transaction.__exit__ 4" for when in ("before", "after")),
}
#: In the middle of the commit that has rows, a new column, and bad rows that are there already.
WORST = {
    "delta": "before DeltaTable.create_write_transaction 3",
    "parquet": "before Path.rename 10",
    "iceberg": "after SqlCatalog._write_metadata 6",
    "postgres": "before Transaction.__exit__ 16",
}


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.close()


@pytest.mark.parametrize("form", FORMS)
def test_a_driver_dies_in_the_middle_of_a_commit(
    tmp_path: Path, postgres_server: PostgresServer, form: str
) -> None:
    survives(tmp_path / form, form, postgres_server, WORST[form])


@pytest.mark.soak
@pytest.mark.parametrize("form", FORMS)
def test_a_driver_or_a_task_dies_at_each_step(
    tmp_path: Path, postgres_server: PostgresServer, form: str
) -> None:
    whole = tmp_path / "whole"
    run = started("deaths", str(whole), form, postgres_server.new_database())
    assert run.returncode == 0, run.stderr
    steps = run.stdout.splitlines()
    assert WORST[form] in steps
    for number, step in enumerate(steps):
        survives(tmp_path / str(number), form, postgres_server, step)


#: Where rows are in two places, or in neither.
MENDED = (
    ("replay", "iceberg", "after SqlCatalog.commit_table 3"),
    ("replay", "postgres", "before Transaction.__exit__ 7"),
    ("rebuild", "iceberg", "after SqlCatalog.commit_table 2"),
    ("rebuild", "postgres", "after Transaction.__exit__ 1"),
)


@pytest.mark.parametrize(("verb", "form", "step"), MENDED[1:3])
def test_who_mends_a_table_dies(
    tmp_path: Path, postgres_server: PostgresServer, verb: str, form: str, step: str
) -> None:
    is_mended(tmp_path / "lake", verb, form, postgres_server, step)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("verb", "form"),
    [("replay", form) for form in FORMS] + [("rebuild", "iceberg"), ("rebuild", "postgres")],
)
def test_who_mends_a_table_dies_at_each_step(
    tmp_path: Path, postgres_server: PostgresServer, verb: str, form: str
) -> None:
    run = started("mend_deaths", verb, str(tmp_path / "l"), form, postgres_server.new_database())
    assert run.returncode == 0, run.stderr
    steps = run.stdout.splitlines()
    assert all(step in steps for *what, step in MENDED if what == [verb, form])
    for number, step in enumerate(steps):
        is_mended(tmp_path / str(number), verb, form, postgres_server, step)


def is_mended(place: Path, verb: str, form: str, server: PostgresServer, step: str) -> None:
    """Die at a step; then go on as the command does: all of it is there once."""
    address = server.new_database()
    died = started("mend_deaths", verb, str(place), form, address, step)
    assert died.returncode == -signal.SIGKILL, (step, died.stderr)
    server.wait_alone(address)
    if verb == "rebuild":
        offsets = sorted(row["queue_offset"] for row in read(place, form, address, "rows"))
        assert offsets in ([0, 1, 2, 5], sorted(deaths.ROWS)), step  # the old ones, or the new
    table = {"replay": mend_deaths.replayed, "rebuild": mend_deaths.rebuilt}[verb](place)
    rows = Counter(
        (row["queue_offset"], row["city"], row["n"]) for row in read(place, form, address, "rows")
    )
    assert rows == {(offset, *values): 1 for offset, values in deaths.ROWS.items()}, step
    bad = Counter(
        (row["queue_offset"], bytes(row["body"])) for row in read(place, form, address, "bad_rows")
    )
    assert bad == dict.fromkeys(deaths.BAD_ROWS.items(), 1), step
    assert table.rows.last_batch() == len(deaths.BATCHES) - 1, step
    assert table.rows.figures()["rows"] == len(deaths.ROWS), step
    assert table.bad_rows.figures()["rows"] == len(deaths.BAD_ROWS), step
    deaths.fill_table(table)  # batches that come again are left out
    assert table.rows.figures()["rows"] == len(deaths.ROWS), step
    if form == "postgres":
        left = "SELECT relname FROM pg_class WHERE relname ~ 'rocketpipe_(stage|mend|new)'"
        assert asked(address, left) == [], step
    assert [each.name for each in place.parent.iterdir() if each.name.startswith(place.name)] == [
        place.name
    ]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a broker that is down: 59 messages of ``orders``, three of them no rows."""
    place = tmp_path_factory.mktemp("store")

    async def fill() -> None:
        async with cluster(place) as running, Producer(running.name_server) as producer:
            for number in range(59):
                body = b"no" if number % 20 == 7 else b'{"n": %d}' % number
                await producer.send("orders", body)

    asyncio.run(fill())
    return place


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize("form", FORMS)
def test_spark_dies_around_a_commit_and_a_worker_in_its_task(
    tmp_path: Path, postgres_server: PostgresServer, store: Path, form: str
) -> None:
    _, sink, _ = deaths.WATCHED[form][1]
    for number, step in enumerate(("task", f"before {sink}.commit 2", *AROUND[form])):
        place, address = tmp_path / str(number), postgres_server.new_database()
        words = (str(place), form, address, str(store))
        first = started("follow_deaths", *words, step)
        assert first.returncode == (0 if step == "task" else -signal.SIGKILL), first.stderr
        if step == "task":
            assert (tmp_path / f"{number}.died").exists()
        else:
            second = started("follow_deaths", *words)
            assert second.returncode == 0, second.stderr
        rows = Counter(row["n"] for row in read(place, form, address, "rows"))
        assert rows == Counter(number for number in range(59) if number % 20 != 7), step
        assert len(read(place, form, address, "bad_rows")) == 3, step


def survives(place: Path, form: str, server: PostgresServer, step: str) -> None:
    """Die at a step; then go on, as Spark does, with batches whose end it has not seen."""
    address = server.new_database()
    died = started("deaths", str(place), form, address, step)
    assert died.returncode == -signal.SIGKILL, (step, died.stderr)
    server.wait_alone(address)
    table = deaths.fill(place, form, address)
    rows = Counter(
        (row["queue_offset"], row["city"], row["n"]) for row in read(place, form, address, "rows")
    )
    assert rows == {(offset, *values): 1 for offset, values in deaths.ROWS.items()}, step
    bad = Counter(
        (row["queue_offset"], bytes(row["body"])) for row in read(place, form, address, "bad_rows")
    )
    assert bad == dict.fromkeys(deaths.BAD_ROWS.items(), 1), step
    assert table.rows.last_batch() == len(deaths.BATCHES) - 1
    assert table.rows.figures()["rows"] == len(deaths.ROWS), step
    if form == "postgres":
        left = "SELECT relname FROM pg_class WHERE relname LIKE 'rocketpipe_stage%'"
        assert asked(address, left) == [], step


def started(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, "-m", f"tests.tables.support.{program}", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
        start_new_session=True,
    )


def read(place: Path, form: str, address: str, name: str) -> list[dict[str, Any]]:
    """What a user reads, with nothing of ours."""
    root = place if name == "rows" else place / "_rocketpipe" / "bad_rows"
    if form == "postgres":
        table = "orders" if name == "rows" else "orders_bad_rows"
        with psycopg.connect(address) as connection:
            found = connection.execute(f"SELECT * FROM {table}")  # type: ignore[arg-type]
            names = [column.name for column in found.description or ()]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    if form == "delta":
        return DeltaTable(root).to_pyarrow_table().to_pylist()
    if form == "iceberg":
        known = SqlCatalog("rocketpipe", uri=f"sqlite:///{place}/_rocketpipe/catalog.db")
        return known.load_table(("tables", name)).scan().to_arrow().to_pylist()
    rows: list[dict[str, Any]] = []
    for batch in sorted(root.glob("batch=*")):
        if list(batch.rglob("*.parquet")):
            rows += pq.read_table(batch, partitioning=CITIES).to_pylist()
    return [{"n": None, **row} for row in rows]


def asked(address: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(address) as connection:
        return connection.execute(statement).fetchall()  # type: ignore[arg-type]
