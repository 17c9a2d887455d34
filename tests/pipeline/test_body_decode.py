"""Bodies as text and as typed columns; bad ones keep their row."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.pipeline.body_decode import decoded_columns

CITY = [pa.field("city", pa.string()), pa.field("amount", pa.float64())]


def decoded(
    bodies: list[bytes], fields: list[pa.Field] = CITY, decode: str = "json"
) -> list[dict[str, Any]]:
    columns = decoded_columns(pa.array(bodies, pa.binary()), decode, fields)
    for field in fields:
        assert columns[field.name].type == field.type
    rows: list[dict[str, Any]] = pa.table(columns).to_pylist()
    assert len(rows) == len(bodies)
    return rows


def test_each_field_becomes_a_column_of_its_type() -> None:
    fields = [
        pa.field("flag", pa.bool_()),
        pa.field("count", pa.int32()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("inner", pa.struct([pa.field("x", pa.int64())])),
    ]
    body = (
        b'{"flag": true, "count": 7, "day": "2013-01-31", "at": "2013-01-31T05:15:00Z",\n'
        b'"price": "1.50", "tags": ["a", "b"], "inner": {"x": 1, "y": 2}, "other": {}}'
    )
    assert decoded([body], fields) == [
        {
            "flag": True,
            "count": 7,
            "day": date(2013, 1, 31),
            "at": datetime(2013, 1, 31, 5, 15, tzinfo=UTC),
            "price": Decimal("1.50"),
            "tags": ["a", "b"],
            "inner": {"x": 1},
            "decode_error": None,
        }
    ]


def test_what_is_missing_or_null_is_null_and_no_error() -> None:
    rows = decoded([b"{}", b'{"city": null, "amount": 5}'])
    assert [(row["city"], row["amount"], row["decode_error"]) for row in rows] == [
        (None, None, None),
        (None, 5.0, None),
    ]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not JSON"),
        (b"{oops", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b"[1]", "not a JSON object"),
        (b"7", "not a JSON object"),
        (b'{"city": "a"} {"city": "b"}', "not JSON"),
        (b'{"amount": "much"}', "amount"),
        (b'{"city": {"name": "Oslo"}}', "city"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_a_bad_body_has_nulls_and_the_reason_and_its_neighbours_their_values(
    body: bytes, reason: str
) -> None:
    good = b'{"city": "Oslo", "amount": 1}'
    rows = decoded([good, body, good, good])
    assert [row["city"] for row in rows] == ["Oslo", None, "Oslo", "Oslo"]
    assert [row["decode_error"] is None for row in rows] == [True, False, True, True]
    assert reason in rows[1]["decode_error"]


def test_a_batch_of_nothing_but_bad_bodies_is_all_errors() -> None:
    rows = decoded([b"x", b'{"amount": "y"}'] * 50)
    assert all(row["decode_error"] and row["amount"] is None for row in rows)


@given(st.lists(st.binary(max_size=20) | st.sampled_from([b'{"city":"a"}', b'{"amount":1e3}'])))
def test_whatever_bodies_hold_each_keeps_its_row(bodies: list[bytes]) -> None:
    alone = [decoded([body])[0] for body in bodies]
    together = decoded(bodies)
    for row in (*alone, *together):
        row["decode_error"] = row["decode_error"] is not None  # the words may differ
    assert together == alone


def test_text_is_given_as_it_is_and_what_is_none_is_told() -> None:
    fields = [pa.field("text", pa.string())]
    assert decoded([b"caf\xc3\xa9", b""], fields, "text") == [
        {"text": "café", "decode_error": None},
        {"text": "", "decode_error": None},
    ]
    assert decoded([b"fine", b"a\xffb"], fields, "text") == [
        {"text": "fine", "decode_error": None},
        {"text": None, "decode_error": "not UTF-8 at byte 1"},
    ]


def test_an_error_is_no_longer_than_a_line() -> None:
    [row] = decoded([b'{"amount": "' + b"x" * 5000 + b'"}'])
    assert len(row["decode_error"]) <= 300
