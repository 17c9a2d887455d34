"""Tables made anew, and bad rows replayed, on a real Spark, with deaths on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from rocketpipe.tables import (
    FollowedTable,
    HalfReplayed,
    follow,
    rebuild,
    replay,
    verify,
)
from rocketpipe.tables.replaying import settle
from rocketpipe.testing import Cluster

pytestmark = pytest.mark.spark

Send = Callable[..., None]

#: Ends the process in the middle of a verb, as a power cut would: before or after a call.
DIES = """
import importlib, json, os, signal, sys
import rocketpipe.tables

verb, place, when, asked = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
module, _, name = place.rpartition(".")
owner = importlib.import_module(module) if ":" not in module else None
if owner is None:
    home, _, kind = module.partition(":")
    owner = getattr(importlib.import_module(home), kind)
call = getattr(owner, name)

def dying(*given, **named):
    if when == "after":
        call(*given, **named)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(owner, name, dying)
getattr(rocketpipe.tables, verb)(**asked)
"""

TABLES = "rocketpipe.tables"


def killed(verb: str, step: str, when: str, **asked: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DIES, verb, f"{TABLES}.{step}", when, json.dumps(asked)],
        check=False,
        timeout=1200,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert done.returncode == -signal.SIGKILL


def bodies(count: int, first: int = 0) -> list[bytes]:
    """Every fifth of them has a field more, and every tenth is no JSON."""
    return [
        b"no %d" % n
        if n % 10 == 9
        else b'{"city": "c%d", "n": %d%s}' % (n % 3, n, b"" if n % 5 else b', "note": "x"')
        for n in range(first, first + count)
    ]


def made(spark: SparkSession, servers: Cluster, topic: str, to: Path, **more: Any) -> FollowedTable:
    asked = {
        "name_server": servers.name_server,
        "decode": "json",
        "schema": "city STRING, n INT",
        "partition_by": "city",
        "new_columns": "quarantine",
        **more,
    }
    follow(topic, to=to, once=True, spark=spark, **asked)
    return FollowedTable.open(to)


def numbers(table: FollowedTable) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for part in table.rows.stored().parts:  # type: ignore[attr-defined]
        for batch in part.read(table.schema):
            found.update(batch.column("n").to_pylist())
    return found


STEPS = [
    ("rebuilding._carry_replayed", "before"),  # followed, not verified
    ("rebuilding.exchange", "before"),
    ("rebuilding.exchange", "after"),
]


@pytest.mark.parametrize(
    ("form", "step", "when"),
    [
        pytest.param(form, *step, marks=pytest.mark.soak)
        for form in ("delta", "parquet")
        for step in STEPS
    ],
)
def test_a_rebuild_that_is_killed_leaves_the_old_table_or_the_new(
    spark: SparkSession,
    servers: Cluster,
    send: Send,
    tmp_path: Path,
    form: str,
    step: str,
    when: str,
) -> None:
    place = tmp_path / "lake"
    topic = f"rebuilt-{form}-{step.replace('.', '-').replace(':', '-')}-{when}"
    send(topic, bodies(20))
    old = made(spark, servers, topic, place, format=form, group="a-group")
    if form == "delta":
        DeltaTable(place).delete("n = 7")
    else:
        next((place / "batch=00000000").rglob("*.parquet")).unlink()
    killed("rebuild", step, when, place=str(place))
    left = FollowedTable.open(place)
    is_new = (step, when) == STEPS[2]
    assert (left.spec.id != old.spec.id) is is_new
    assert verify(place, spark=spark).is_equal is is_new
    done = rebuild(place, spark=spark)
    assert done.resumed is ((step, when) in STEPS[:2])
    assert [each.name for each in tmp_path.iterdir()] == ["lake"]
    assert not (place / "_rocketpipe" / "rebuild.json").exists()
    new = FollowedTable.open(place)
    assert (new.spec.group, new.spec.name_server) == ("a-group", servers.name_server)
    send(topic, bodies(5, first=20))
    assert follow(to=place, once=True, spark=spark).rows == 4  # it goes on where it ends
    assert numbers(new) == Counter(n for n in range(25) if n % 5 and n % 10 != 9)
    assert verify(place, spark=spark).is_equal


WIDER = "city STRING, n INT, note STRING"
REPLAY_STEPS = [
    ("replaying:Journal.write", "before"),
    ("replaying:Journal.write", "after"),
    ("SINK.add_named", "after"),
    ("SINK.replace_named", "after"),
    ("replaying._send", "after"),
]
SINKS = {
    "delta": "sinks.delta:DeltaSink",
    "parquet": "sinks.parquet:ParquetSink",
    "iceberg": "sinks.iceberg:IcebergSink",
}


@pytest.mark.soak
def test_a_table_made_anew_knows_what_was_sent_again(
    spark: SparkSession, servers: Cluster, send: Send, tmp_path: Path
) -> None:
    place = tmp_path / "lake"
    send("sent-again", bodies(20))
    table = made(spark, servers, "sent-again", place)
    settle(
        spark, table, frozenset({("broker-a", queue, at) for queue in range(4) for at in (0, 1)})
    )
    settled = table.replayed.figures()["rows"]
    assert 0 < settled < 6
    assert verify(place, spark=spark).is_equal
    rebuild(place, spark=spark)
    table = FollowedTable.open(place)
    assert table.replayed.figures()["rows"] == settled
    assert table.bad_rows.figures()["rows"] == 6 - settled
    assert verify(place, spark=spark).is_equal
    again = replay(place, to="table", spark=spark, schema=WIDER)
    assert replay(place, to="table", spark=spark).replayed == 0
    assert again.replayed + again.failed == 6 - settled


@pytest.mark.parametrize(
    ("form", "to", "step", "when"),
    [
        pytest.param(form, to, *step, marks=pytest.mark.soak)
        for form in SINKS
        for to in ("table", "topic")
        for step in REPLAY_STEPS
        if (to, step) != ("table", REPLAY_STEPS[4])
    ],
)
def test_a_replay_that_is_killed_replays_each_bad_row_once(
    spark: SparkSession,
    servers: Cluster,
    send: Send,
    tmp_path: Path,
    form: str,
    to: Any,
    step: str,
    when: str,
) -> None:
    place = tmp_path / "lake"
    topic = f"replayed-{form}-{to}-{step.replace('.', '-').replace(':', '-')}-{when}"
    send(topic, bodies(20))
    table = made(spark, servers, topic, place, format=form)
    assert table.bad_rows.figures()["rows"] == 6
    asked = {"to": to, "schema": WIDER}
    killed("replay", step.replace("SINK", SINKS[form]), when, place=str(place), **asked)
    if (step, when) != REPLAY_STEPS[0]:
        with pytest.raises(HalfReplayed, match="finish it with"):
            follow(to=place, once=True, spark=spark)
        with pytest.raises(HalfReplayed):
            verify(place, spark=spark)
    done = replay(place, spark=spark, **asked)
    assert done.resumed + done.replayed == 4
    table = FollowedTable.open(place)
    assert table.bad_rows.figures()["rows"] == 2
    assert table.rows.figures()["rows"] == (18 if to == "table" else 14)
    assert follow(to=place, once=True, spark=spark).rows == (0 if to == "table" else 4)
    report = verify(place, spark=spark)
    assert report.is_equal
    assert report.messages == (20 if to == "table" else 24)
    assert numbers(table) == Counter(n for n in range(20) if n % 10 != 9)
