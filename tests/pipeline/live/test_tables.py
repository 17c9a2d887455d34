"""Tables that follow topics, on a real Spark, and drivers that die on the way."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.waiting import until

from rocketpipe.tables import FollowedTable, NewColumns, follow
from rocketpipe.testing import Cluster

pytestmark = pytest.mark.spark

Send = Callable[..., None]

#: Ends the process at a step of a batch, as a power cut would; Spark's JVM goes with it.
DIES = """
import json, os, signal, sys
from rocketpipe.tables import follow
from rocketpipe.tables.sinks.delta import DeltaSink
from rocketpipe.tables.sinks.parquet import ParquetSink

step, asked = sys.argv[1], json.loads(sys.argv[2])
sink = DeltaSink if asked["format"] == "delta" else ParquetSink
commit = sink.commit

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def dying(self, files, batch, notes=None):
    is_bad = str(self._root).rstrip("/").endswith("bad_rows")
    if batch == 1 and step == "files written":
        die()
    came = commit(self, files, batch, notes)
    if batch == 1 and step == ("bad rows committed" if is_bad else "rows committed"):
        die()
    return came

sink.commit = dying
follow(**asked, once=True)
"""


def bodies(count: int, first: int = 0) -> list[bytes]:
    """Every fifth of them is no JSON."""
    return [
        b"no %d" % number if number % 5 == 4 else b'{"city": "c%d", "n": %d}' % (number % 3, number)
        for number in range(first, first + count)
    ]


def asked(servers: Cluster, topic: str, to: Path, **more: Any) -> dict[str, Any]:
    return {
        "topic": topic,
        "to": str(to),
        "name_server": servers.name_server,
        "decode": "json",
        "schema": "city STRING, n INT",
        "partition_by": "city",
        "format": "delta",
        **more,
    }


def found(table: Path, column: str, form: str = "delta") -> Counter[Any]:
    if form == "delta":
        values = DeltaTable(table).to_pyarrow_table(columns=[column]).column(column).to_pylist()
    else:
        paths = sorted(table.glob("batch=*/**/*.parquet"))
        read = [pq.ParquetFile(path).read([column]) for path in paths]
        values = [value for each in read for value in each.column(column).to_pylist()]
    return Counter(values)


def check_whole(to: Path, sent: Sequence[bytes], form: str = "delta") -> None:
    """Every message is in the table or with the bad rows, once: as multisets."""
    good = Counter(json.loads(body)["n"] for body in sent if body.startswith(b"{"))
    assert found(to, "n", form) == good
    bad = Counter(body for body in sent if not body.startswith(b"{"))
    assert found(to / "_rocketpipe" / "bad_rows", "body", form) == bad


def test_a_table_has_each_message_once_and_goes_on_where_it_was(
    spark: SparkSession, servers: Cluster, send: Send, tmp_path: Path
) -> None:
    to = tmp_path / "my örders"
    send("table-orders", bodies(20), keys=["K"], tags="paid")
    told: list[Any] = []
    first = follow(**asked(servers, "table-orders", to), once=True, spark=spark, tell=told.append)
    assert (first.rows, first.bad_rows, first.restarts) == (16, 4, 0)
    assert told == [{"batch": 0, "rows": 16, "bad_rows": 4}]
    again = follow(to=to, once=True, spark=spark)  # all that it is told is in the directory
    assert (again.rows, again.bad_rows, again.last_batch) == (0, 0, 0)
    send("table-orders", bodies(10, first=20))
    third = follow("table-orders", to=to, once=True, spark=spark, partition_by="city")
    assert (third.rows, third.bad_rows, third.last_batch) == (8, 2, 1)
    check_whole(to, bodies(30))
    assert [each.name for each in tmp_path.iterdir()] == [to.name]
    row = DeltaTable(to).to_pyarrow_table(filters=[("n", "=", 3)]).to_pylist()[0]
    assert (row["broker"], row["keys"], row["tags"]) == ("broker-a", ["K"], "paid")
    assert row["body_digest"] is not None
    # Spark's own function gives the same digest of the same body.
    [(digest,)] = spark.sql(
        """SELECT xxhash64(CAST('{"city": "c0", "n": 3}' AS BINARY))"""
    ).collect()
    assert row["body_digest"] == digest


def test_a_new_field_becomes_a_column_or_ends_the_query(
    spark: SparkSession, servers: Cluster, send: Send, tmp_path: Path
) -> None:
    to = tmp_path / "fields"
    send("table-fields", [b'{"n": 1, "note": "x"}'])
    how = asked(servers, "table-fields", to, partition_by=None)
    with pytest.raises(NewColumns, match=r"note \(message 0 in queue \d of broker 'broker-a'\)"):
        follow(**how, new_columns="fail", once=True, spark=spark)
    assert FollowedTable.open(to).rows.last_batch() is None
    assert follow(**how, new_columns="add", once=True, spark=spark).rows == 1
    assert found(to, "note") == {"x": 1}


@pytest.mark.soak  # the command does the same until Ctrl-C, in tests/cli/nouns/test_tables.py
def test_a_table_follows_until_it_is_stopped(
    spark: SparkSession, servers: Cluster, send: Send, tmp_path: Path
) -> None:
    to = tmp_path / "followed"
    send("table-followed", bodies(5))
    stop = threading.Event()
    told: list[Any] = []
    failed: list[BaseException] = []

    def run() -> None:
        how = asked(servers, "table-followed", to, every_ms=0)
        try:
            follow(**how, spark=spark, stop=stop, tell=told.append)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        asyncio.run(until(lambda: told or failed))
        send("table-followed", bodies(5, first=5))
        asyncio.run(until(lambda: failed or sum(each.get("rows", 0) for each in told) == 8))
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive()
    assert not failed
    check_whole(to, bodies(10))
    assert FollowedTable.open(to).directory.writer() is None


@pytest.mark.soak  # tests/faults/test_table_deaths.py has every step of it, without Spark
@pytest.mark.parametrize("form", ["delta", "parquet"])
@pytest.mark.parametrize("step", ["files written", "bad rows committed", "rows committed"])
def test_a_driver_that_is_killed_loses_and_doubles_nothing(
    spark: SparkSession, servers: Cluster, send: Send, tmp_path: Path, form: str, step: str
) -> None:
    to = tmp_path / "killed"
    topic = f"table-killed-{form}-{step.replace(' ', '-')}"
    send(topic, bodies(30))
    how = asked(servers, topic, to, format=form, batch_rows=10)
    done = subprocess.run(
        [sys.executable, "-c", DIES, step, json.dumps(how)],
        check=False,
        timeout=200,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert done.returncode == -signal.SIGKILL
    table = FollowedTable.open(to)
    assert table.rows.last_batch() == (1 if step == "rows committed" else 0)
    assert (table.checkpoint.planned, table.checkpoint.done) == (1, 0)
    follow(**how, once=True, spark=spark)
    check_whole(to, bodies(30), form)
    assert follow(**how, once=True, spark=spark).rows == 0
