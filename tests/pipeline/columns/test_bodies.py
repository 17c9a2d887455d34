"""Bodies as text and as typed columns; bad ones keep their row."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.pipeline.columns.bodies import decoded_columns
from rocketpipe.pipeline.columns.json_fields import FieldReader

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
        (b'{"amount": true}', "amount: true does not fit"),
        (b"[" * 100_000, "not JSON"),
        (b'{"x": ' + b"[" * 128 + b"]" * 128 + b"}", "nested more than 128 deep"),
        (b'{"city": "a\nb"}', "not JSON"),
        (b'{"city": "a\x00b"}', "not JSON"),
        (b'{"city": "a"}\x00', "not JSON"),
        (b'{"city": "\xff"}', "not UTF-8 at byte 10"),
        (b'{"city": "\\ud800"}', "city"),
        (b'{"amount": NaN}', "not JSON: NaN"),
        (b"  \n ", "not JSON"),
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


A = [pa.field("a", pa.int64())]


@pytest.mark.parametrize(
    ("bodies", "values"),
    [
        (
            [b'{"a":1}\n{"a":2}', b'{"a":3}', b'{"a":4}', b" ", b'{"a":5}'],
            [None, 3, 4, None, 5],
        ),
        ([b'{"a":', b"1}", b'{"a":2}{"a":3}'], [None, None, None]),
        ([b'{"a":1}', b"", b'{"a":2} {"a":3}', b"{}"], [1, None, None, None]),
        ([b'{"a":1', b'}{"a":2}'], [None, None]),
        ([b'{"b":"', b'"} {"a":2}', b'{"a":3}'], [None, None, 3]),
        ([b'[{"a":1}, {"a":2}]', b'\n{\n"a" :\r\n 3 }\n', b'\xef\xbb\xbf{"a":4}'], [None, 3, 4]),
    ],
)
def test_a_row_has_the_value_of_its_own_body_or_none(
    bodies: list[bytes], values: list[int | None]
) -> None:
    rows = decoded(bodies, A)
    assert [row["a"] for row in rows] == values
    told = [row["decode_error"] is not None for row in rows]
    assert told == [
        value is None and body != b"{}" for value, body in zip(values, bodies, strict=True)
    ]


PIECES = st.sampled_from(
    [
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b'"a"',
        b":",
        b",",
        b"1",
        b"2.5",
        b" ",
        b"\n",
        b"\r",
        b"\\",
        b'{"a":1}',
        b'{"a":2}',
        b'"\\""',
        b"\x00",
        b"\xef\xbb\xbf",
        b"null",
        b"\xc3\xa9",
        b"\xff",
    ]
)
TORN = st.lists(PIECES, max_size=7).map(b"".join)


@given(st.lists(TORN | st.just(b'{"a":7}'), max_size=12))
def test_whatever_is_torn_or_joined_each_row_is_as_json_reads_its_body(bodies: list[bytes]) -> None:
    for body, row in zip(bodies, decoded(bodies, A), strict=True):
        assert (row["a"], row["decode_error"] is not None) == expected(body)


def expected(body: bytes) -> tuple[int | None, bool]:
    """The value of a in a body and whether something is amiss, by Python's own parser."""
    try:
        value = json.loads(body.decode("utf-8-sig"), parse_constant=int)
    except ValueError:
        return None, True
    if not isinstance(value, dict):
        return None, True
    found = value.get("a")
    if type(found) is int:
        return found, False
    return None, found is not None


FIELDS = [
    pa.field("flag", pa.bool_()),
    pa.field("small", pa.int8()),
    pa.field("large", pa.int64()),
    pa.field("half", pa.float32()),
    pa.field("full", pa.float64()),
    pa.field("text", pa.string()),
    pa.field("day", pa.date32()),
    pa.field("at", pa.timestamp("us", tz="UTC")),
    pa.field("local", pa.timestamp("us")),
    pa.field("price", pa.decimal128(6, 2)),
    pa.field("list", pa.list_(pa.int32())),
    pa.field("inner", pa.struct([pa.field("x", pa.string()), pa.field("y", pa.bool_())])),
    pa.field("times", pa.list_(pa.timestamp("us", tz="UTC"))),
    pa.field("map", pa.map_(pa.string(), pa.float64())),
]
NUMBERS = st.sampled_from(
    [
        "0",
        "-0",
        "1",
        "-129",
        "127",
        "2.5",
        "1e3",
        "1E-2",
        "1e999",
        "9223372036854775807",
        "9223372036854775808",
        "12345.678",
        "1.005",
        "99999.99",
        "1700000000",
        "1700000000000",
    ]
)
TEXTS = st.sampled_from(
    [
        "2013-01-31",
        "2013-02-30",
        "2013-01-31T05:15:00Z",
        "2013-01-31 05:15:00.123456789+02:00",
        "2013-01-31T05:15",
        "2013-01-31T05",
        "2013-01-31T25:00:00",
        "0000-01-01",
        "0001-01-01",
        "9999-12-31T23:59:59.999999-00:01",
        "2013-01-31T05:15:00+0530",
        "2013-01-31T05:15:00-19",
        "NaN",
        "-Infinity",
        "1.50",
        "1_0",
        " 1",
        "+.5",
        "5.",
        "1e2",
        "",
        "true",
        "\u00e9",
        "\U0001f600",
        "20130131",
        "2013-1-31",
        "2013-01-31T05:15:00.1234567Z",
        "2013-01-31T05:15:60Z",
    ]
)
SCALARS = st.one_of(
    NUMBERS,
    TEXTS.map(json.dumps),
    st.sampled_from(["null", "true", "false", '"\\ud800"', '"\\u0000"', '"\\/"', "{}", "[]"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda each: f"[{', '.join(each)}]"),
        st.lists(st.tuples(st.sampled_from(["x", "y", "z"]), inner), max_size=3).map(
            lambda each: "{" + ",".join(f'"{name}": {value}' for name, value in each) + "}"
        ),
    ),
    max_leaves=4,
)


@given(st.sampled_from(FIELDS), st.lists(VALUES, min_size=1, max_size=8))
def test_a_batch_is_read_as_each_of_its_bodies_is_alone(field: pa.Field, values: list[str]) -> None:
    bodies = [f'{{"{field.name}": {value}, "more": {value}}}'.encode() for value in values]
    reader = FieldReader([field])
    read = [reader.read(body) for body in bodies]
    alone = pa.array(
        [row[0] for row, _ in read], pa.float64() if field.name == "half" else field.type
    )
    columns = decoded_columns(pa.array(bodies, pa.binary()), "json", [field])
    assert str(columns[field.name]) == str(alone.cast(field.type, safe=False))
    assert columns["decode_error"].to_pylist() == [told for _, told in read]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.decimal128(5, 2), "32768"),
        (pa.decimal128(5, 2), '"1e3"'),
        (pa.list_(pa.decimal128(5, 2)), "[1, 32768]"),
        (pa.struct([pa.field("x", pa.decimal128(5, 2))]), '{"x": 32768}'),
        (pa.date32(), '"0000-01-01"'),
        (pa.timestamp("us", tz="UTC"), '"2013-01-31T05:15:00+19:00"'),
        (pa.timestamp("us", tz="UTC"), '"2013-01-31 05-1801"'),
    ],
)
def test_what_arrow_takes_and_the_type_does_not_is_told(kind: pa.DataType, value: str) -> None:
    field = pa.field("a", kind)
    body = f'{{"a": {value}}}'.encode()
    [(alone, told)] = [FieldReader([field]).read(body)]
    [row] = decoded([body], [field])
    assert told is not None
    assert (str(row["a"]), row["decode_error"]) == (
        str(pa.array(alone, kind).to_pylist()[0]),
        told,
    )


def test_a_field_that_does_not_fit_is_null_and_told_and_the_others_keep_theirs() -> None:
    fields = [
        *CITY,
        pa.field("inner", pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.int32())])),
    ]
    good = b'{"city": "Oslo", "amount": 1, "inner": {"x": 1, "y": 2}}'
    bad = b'{"city": "Rome", "amount": "much", "inner": {"x": 5000000000, "y": 2}}'
    rows = decoded([good, bad, good], fields)
    assert rows[0] == rows[2]
    assert rows[1] == {
        "city": "Rome",
        "amount": None,
        "inner": {"x": None, "y": 2},
        "decode_error": 'amount: "much" does not fit; inner.x: 5000000000 does not fit',
    }


def test_many_rows_of_which_some_do_not_fit_keep_their_places() -> None:
    bodies = [b'{"a": %d}' % row if row % 700 else b'{"a": "x%d"}' % row for row in range(5000)]
    rows = decoded(bodies, A)
    assert [row["a"] for row in rows] == [row if row % 700 else None for row in range(5000)]
    assert [at for at, row in enumerate(rows) if row["decode_error"]] == list(range(0, 5000, 700))


def test_rows_that_have_no_body_are_null_and_say_why() -> None:
    bodies = pa.array([b'{"a": 1}', None, b'{"a": 3}'], pa.binary())
    columns = decoded_columns(bodies, "json", A, lost={1: "its body does not inflate"})
    assert columns["a"].to_pylist() == [1, None, 3]
    assert columns["decode_error"].to_pylist() == [None, "its body does not inflate", None]
    columns = decoded_columns(bodies, "text", [pa.field("text", pa.string())], lost={1: "gone"})
    assert columns["text"].to_pylist() == ['{"a": 1}', None, '{"a": 3}']


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
