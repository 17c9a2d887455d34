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


def deleted(table: Path, number: int) -> None:
    DeltaTable(table).delete(at(row_of(table, number)))


def doubled(table: Path, number: int) -> None:
    found = DeltaTable(table).to_pyarrow_table()
    write_deltalake(table, found.filter(pc.equal(found["n"], number)), mode="append")


def changed(table: Path, number: int) -> None:
    DeltaTable(table).update({"n": "8000"}, predicate=at(row_of(table, number)))


def digest_changed(table: Path, number: int) -> None:
    DeltaTable(table).update({"body_digest": "1"}, predicate=at(row_of(table, number)))


def moved(table: Path, number: int) -> None:
    DeltaTable(table).update({"queue_offset": "7777"}, predicate=at(row_of(table, number)))


def added_to_an_older_row(table: Path, number: int) -> None:
    DeltaTable(table).update({"note": "'new'"}, predicate=at(row_of(table, number)))


def bad_row_deleted(table: Path) -> None:
    DeltaTable(table / "_rocketpipe" / "bad_rows").delete("body = X'6E6F2034'")


def bad_row_doubled_as_a_row(table: Path) -> None:
    rows = DeltaTable(table / "_rocketpipe" / "bad_rows").to_pyarrow_table().to_pylist()
    bad = next(row for row in rows if row["body"] == b"no 9")
    found = DeltaTable(table).to_pyarrow_table().slice(0, 1)
    for name in ("queue_id", "queue_offset"):
        column = pa.array([bad[name]], found.schema.field(name).type)
        found = found.set_column(found.schema.get_field_index(name), name, column)
    write_deltalake(table, found, mode="append")


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
    # All at once, each to a row of its own: a comparison takes Spark as long for one as for all.
    broken = tmp_path / "broken"
    shutil.copytree(whole, broken)
    breaks: dict[Callable[[Path, int], None], tuple[int, str]] = {
        deleted: (7, "missing"),
        doubled: (10, "twice"),
        changed: (11, "different"),
        digest_changed: (12, "different"),
        moved: (13, "missing"),
        added_to_an_older_row: (15, "different"),
    }
    rows = {number: row_of(whole, number) for number, _ in breaks.values()}
    for broken_by, (number, _) in breaks.items():
        broken_by(broken, number)
    bad_row_deleted(broken)
    bad_row_doubled_as_a_row(broken)
    report = verify(broken, spark=spark)
    assert report.wrong == {"missing": 3, "twice": 2, "different": 3, "extra": 1}, report
    assert not report.is_equal
    named = {
        (each.kind, each.broker, each.queue_id, offset)
        for each in report.findings
        for offset in range(each.first, each.last + 1)
    }
    for number, kind in breaks.values():
        row = rows[number]
        assert (kind, row["broker"], row["queue_id"], row["queue_offset"]) in named, number
