"""A table compared with its topic, on a real Spark: what somebody breaks by hand is found."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from rocketpipe.tables import follow, verify
from rocketpipe.testing import Cluster

pytestmark = pytest.mark.spark

Send = Callable[..., None]


def bodies(count: int, first: int = 0) -> list[bytes]:
    """Every fifth of them is no JSON; of the later ones some have a field more."""
    return [
        b"no %d" % n
        if n % 5 == 4
        else b'{"city": "c%d %%", "n": %d, "list": ["a", "b"]%s}'
        % (n % 3, n, b', "note": "x%d"' % n if n > 40 else b"")
        for n in range(first, first + count)
    ]


def at(row: dict[str, Any]) -> str:
    return f"queue_id = {row['queue_id']} AND queue_offset = {row['queue_offset']}"


def row_of(table: Path, number: int) -> dict[str, Any]:
    rows = DeltaTable(table).to_pyarrow_table().to_pylist()
    return next(row for row in rows if row["n"] == number)


def deleted(table: Path) -> None:
    DeltaTable(table).delete(at(row_of(table, 7)))


def doubled(table: Path) -> None:
    found = DeltaTable(table).to_pyarrow_table()
    write_deltalake(table, found.filter(pc.equal(found["n"], 7)), mode="append")


def changed(table: Path) -> None:
    DeltaTable(table).update({"n": "8000"}, predicate=at(row_of(table, 7)))


def digest_changed(table: Path) -> None:
    DeltaTable(table).update({"body_digest": "1"}, predicate=at(row_of(table, 7)))


def moved(table: Path) -> None:
    DeltaTable(table).update({"queue_offset": "7777"}, predicate=at(row_of(table, 7)))


def added_to_an_older_row(table: Path) -> None:
    DeltaTable(table).update({"note": "'new'"}, predicate=at(row_of(table, 7)))


def bad_row_deleted(table: Path) -> None:
    DeltaTable(table / "_rocketpipe" / "bad_rows").delete("body = X'6E6F2034'")


def bad_row_doubled_as_a_row(table: Path) -> None:
    bad = DeltaTable(table / "_rocketpipe" / "bad_rows").to_pyarrow_table().to_pylist()[0]
    found = DeltaTable(table).to_pyarrow_table().slice(0, 1)
    for name in ("queue_id", "queue_offset"):
        column = pa.array([bad[name]], found.schema.field(name).type)
        found = found.set_column(found.schema.get_field_index(name), name, column)
    write_deltalake(table, found, mode="append")


def range_dropped(table: Path) -> None:
    DeltaTable(table).delete("queue_id = 2 AND queue_offset >= 5 AND queue_offset < 9")


def test_what_is_broken_by_hand_is_found(
    spark: SparkSession, servers: Cluster, send: Send, tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    send("verified", bodies(40), keys=["K"], tags="paid")
    asked: dict[str, Any] = {"to": whole, "once": True, "spark": spark}
    follow(
        "verified",
        name_server=servers.name_server,
        decode="json",
        schema="city STRING, n INT, list ARRAY<STRING>",
        partition_by="city",
        new_columns="add",
        batch_rows=16,
        compact_every=2,
        **asked,
    )
    send("verified", bodies(40, first=40))
    follow(**asked)
    report = verify(whole, spark=spark)
    assert report.is_equal, report
    assert (report.rows, report.bad_rows, report.messages) == (64, 16, 80)
    assert (report.older, report.unknown, report.behind) == (0, 0, 0)
    send("verified", bodies(1, first=80))
    assert verify(whole, spark=spark).behind == 1
    for breaks, wrong in {
        deleted: {"missing": 1},
        doubled: {"twice": 1},
        changed: {"different": 1},
        digest_changed: {"different": 1},
        moved: {"missing": 1, "extra": 1},
        added_to_an_older_row: {"different": 1},
        bad_row_deleted: {"missing": 1},
        bad_row_doubled_as_a_row: {"twice": 1},
    }.items():
        broken = tmp_path / breaks.__name__
        shutil.copytree(whole, broken)
        breaks(broken)
        report = verify(broken, spark=spark)
        assert report.wrong == wrong, (breaks.__name__, report)
        assert not report.is_equal
        row = row_of(whole, 7)
        if "bad" not in breaks.__name__:
            place = (row["broker"], row["queue_id"], row["queue_offset"], row["queue_offset"])
            assert place in [(f.broker, f.queue_id, f.first, f.last) for f in report.findings]
