"""Rows into PostgreSQL by COPY: every value comes back as it was."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from rocketpipe.tables.errors import DatabaseRefused
from rocketpipe.tables.sinks import copying
from rocketpipe.tables.sinks.copying import StagingTables, copy_text, type_of
from rocketpipe.tables.sinks.database import Database

Psql = Callable[..., list[tuple[Any, ...]]]

STRUCT = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
SCHEMA = pa.schema(
    [
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("whole", pa.int64()),
        ("real", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("texts", pa.list_(pa.string())),
        ("numbers", pa.list_(pa.int32())),
        ("pair", STRUCT),
        ("named", pa.map_(pa.string(), pa.float64())),
        ("blobs", pa.list_(pa.binary())),
    ]
)
ODD = 'tab\t, line\nreturn\r, back\\slash \\N, \\. "quotes" {braces}, NULL, é, 漢'
ROW: dict[str, Any] = {
    "flag": True,
    "tiny": -128,
    "whole": -(2**63),
    "real": 1e300,
    "price": Decimal("-12345678.90"),
    "text": ODD,
    "bytes": bytes(range(256)),
    "day": date(1, 1, 1),
    "at": datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
    "local": datetime(1969, 12, 31, 23, 59, 59, 1),
    "texts": [ODD, "", None, "NULL", " "],
    "numbers": [1, None, -2],
    "pair": {"a": 1, "b": [ODD, None]},
    "named": [("k" + ODD, 1.5), ("none", None)],
    "blobs": [b"\x01"],
}


def copied(address: str, rows: list[dict[str, Any]]) -> str:
    to = StagingTables(Database(address), None, "stage_").open(SCHEMA, None)
    for row in rows:
        to.add(pa.RecordBatch.from_pylist([row], SCHEMA))
    [written] = to.finish()
    assert written.rows == len(rows)
    assert written.size
    return written.path


def test_every_value_comes_back_as_it_was(address: str, psql: Psql) -> None:
    nothing = dict.fromkeys(SCHEMA.names)
    empty = nothing | {"text": "", "bytes": b"", "texts": [], "named": [], "real": math.inf}
    name = copied(address, [ROW, nothing, empty])
    first, second, third = psql(f"SELECT * FROM {name}")
    wanted = ROW | {"named": {"k" + ODD: 1.5, "none": None}, "blobs": ["01"]}
    assert dict(zip(SCHEMA.names, first, strict=True)) == wanted
    assert set(second) == {None}
    found = dict(zip(SCHEMA.names, third, strict=True))
    assert found == empty | {"named": {}}


def test_a_large_batch_goes_in_parts(
    address: str, psql: Psql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "_SLICE_BYTES", 1000)
    schema = pa.schema([("number", pa.int64()), ("text", pa.list_(pa.string()))])
    rows = [{"number": number, "text": ["x" * 300, str(number)]} for number in range(100)]
    to = StagingTables(Database(address), None, "stage_").open(schema, None)
    to.add(pa.RecordBatch.from_pylist(rows, schema).slice(1))
    [written] = to.finish()
    found = psql(f"SELECT number, text[2] FROM {written.path} ORDER BY 1")
    assert found == [(number, str(number)) for number in range(1, 100)]


def test_what_is_refused_leaves_no_table_and_says_why(address: str, psql: Psql) -> None:
    schema = pa.schema([pa.field("number", pa.int64(), nullable=False)])
    to = StagingTables(Database(address), None, "stage_").open(schema, None)
    to.add(pa.RecordBatch.from_arrays([pa.array([None], pa.int64())], ["number"]))
    with pytest.raises(DatabaseRefused, match=r"null value in column \"number\".*\(23502\)"):
        to.finish()
    to.discard()
    assert psql("SELECT count(*) FROM pg_class WHERE relname LIKE 'stage%'") == [(0,)]


def test_nul_is_a_sign_of_its_own_in_bad_rows() -> None:
    schema = pa.schema([("text", pa.string()), ("keys", pa.list_(pa.string()))])
    text = copy_text(pa.RecordBatch.from_pylist([{"text": "a\0b", "keys": ["\0"]}], schema))
    assert text.decode() == 'a\ufffdb\t{"\ufffd"}\n'


def test_types_are_as_postgresql_writes_them() -> None:
    assert type_of(pa.list_(pa.decimal128(5, 1))) == "numeric(5,1)[]"
    assert type_of(pa.list_(pa.list_(pa.int64()))) == "jsonb"
    assert type_of(pa.timestamp("us", tz="UTC")) == "timestamp with time zone"
