"""What each type takes of a JSON body."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from rocketpipe.pipeline.columns.json_fields import (
    FieldReader,
    NotAnObject,
    is_too_deep,
    parse_object,
)

INSTANT = pa.timestamp("us", tz="UTC")
WITHOUT_ZONE = pa.timestamp("us")


def read(kind: pa.DataType, value: str, zone: Any = UTC) -> tuple[Any, str | None]:
    [found], told = FieldReader([pa.field("f", kind)], zone).read(b'{"f": %s}' % value.encode())
    return pa.array([found], kind)[0].as_py(), told


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        (pa.string(), "5.10", "5.10"),
        (pa.string(), '{"name" : "Oslo", "at": [1, 2.50, true, null]}', None),
        (pa.string(), "true", "true"),
        (pa.int8(), "127", 127),
        (pa.float64(), '"Infinity"', float("inf")),
        (pa.decimal128(6, 2), "1.005", Decimal("1.01")),
        (pa.decimal128(6, 2), '"-1.005"', Decimal("-1.01")),
        (pa.decimal128(6, 2), "1e3", Decimal("1000.00")),
        (INSTANT, "1700000000", datetime.fromtimestamp(1_700_000_000, UTC)),
        (INSTANT, '"2013-01-31T05:15:00+02:00"', datetime(2013, 1, 31, 3, 15, tzinfo=UTC)),
        (INSTANT, '"2013-01-31 05:15"', datetime(2013, 1, 31, 5, 15, tzinfo=UTC)),
        (INSTANT, '"2013-01-31"', datetime(2013, 1, 31, tzinfo=UTC)),
        (WITHOUT_ZONE, '"2013-01-31T05:15:00.1234567"', datetime(2013, 1, 31, 5, 15, 0, 123456)),
        (pa.map_(pa.string(), pa.int64()), '{"a": 1, "b": null}', [("a", 1), ("b", None)]),
        (pa.list_(pa.int64()), "[1, null]", [1, None]),
    ],
)
def test_a_value_is_taken_as_from_json_takes_it(kind: pa.DataType, value: str, found: Any) -> None:
    if found is None:
        found = '{"name":"Oslo","at":[1,2.50,true,null]}'
    assert read(kind, value) == (found, None)


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (pa.bool_(), '"true"', 'f: "true" does not fit'),
        (pa.int8(), "128", "f: 128 does not fit"),
        (pa.int64(), "1.0", "f: 1.0 does not fit"),
        (pa.float64(), '"5"', 'f: "5" does not fit'),
        (pa.decimal128(6, 2), "10000", "f: 10000 does not fit"),
        (pa.decimal128(6, 2), '"NaN"', 'f: "NaN" does not fit'),
        (pa.decimal128(6, 2), "1e999999999", "f: 1e999999999 does not fit"),
        (pa.date32(), "15736", "f: 15736 does not fit"),
        (INSTANT, "1700000000000", "f: 1700000000000 does not fit, which would be seconds"),
        (INSTANT, '"31.1.2013"', 'f: "31.1.2013" does not fit'),
        (WITHOUT_ZONE, '"2013-01-31T05:15:00Z"', "does not fit, as it names an offset"),
        (pa.map_(pa.string(), pa.int64()), "[1]", "f: [1] does not fit"),
        (pa.struct([pa.field("x", pa.int8())]), '"x"', 'f: "x" does not fit'),
        (pa.string(), '"\\udc00"', "f: "),
    ],
)
def test_a_value_that_does_not_fit_is_null_and_told(
    kind: pa.DataType, value: str, told: str
) -> None:
    found, said = read(kind, value)
    assert found is None
    assert said is not None
    assert told in said
    said.encode()


def test_what_does_not_fit_inside_is_null_where_it_stands() -> None:
    inner = pa.struct([pa.field("x", pa.int8()), pa.field("y", pa.list_(pa.int8()))])
    assert read(inner, '{"x": 1, "y": [1, "a", 3]}') == (
        {"x": 1, "y": [1, None, 3]},
        'f.y[1]: "a" does not fit',
    )
    counts = pa.map_(pa.string(), pa.int8())
    assert read(counts, '{"a": 1, "b": 999}') == ([("a", 1), ("b", None)], "f.b: 999 does not fit")


def test_a_time_without_an_offset_is_one_of_the_zone() -> None:
    oslo = ZoneInfo("Europe/Oslo")
    summer = datetime(2013, 7, 1, 10, tzinfo=UTC)
    assert read(INSTANT, '"2013-07-01T12:00:00"', oslo) == (summer, None)
    assert read(INSTANT, '"2013-07-01T12:00:00+02:00"', oslo) == (summer, None)
    # An hour that the clocks leave out is the one after it; of one that comes twice, the first.
    gap, twice = '"2013-03-31T02:30:00"', '"2013-10-27T02:30:00"'
    assert read(INSTANT, gap, oslo)[0] == datetime(2013, 3, 31, 1, 30, tzinfo=UTC)
    assert read(INSTANT, twice, oslo)[0] == datetime(2013, 10, 27, 0, 30, tzinfo=UTC)


def test_of_many_that_do_not_fit_some_are_named() -> None:
    fields = [pa.field(f"f{number}", pa.int8()) for number in range(9)]
    body = b"{" + b",".join(b'"f%d": "x"' % number for number in range(9)) + b"}"
    row, told = FieldReader(fields).read(body)
    assert row == [None] * 9
    assert told is not None
    assert told.startswith('f0: "x" does not fit; f1')
    assert told.endswith("; and 4 more")


def test_depth_is_that_of_brackets_outside_text() -> None:
    text = b'{"a": "' + b"[" * 1000 + b'\\"[[", "b": [' + b"[], " * 500 + b"1]}"
    assert not is_too_deep(text)
    assert parse_object(text)["b"][-1] == "1"
    deep = b'{"a":' + b"[" * 128 + b'"' + b"]" * 1000 + b'"' + b"]" * 128 + b"}"
    assert is_too_deep(deep)
    with pytest.raises(NotAnObject, match="nested more than 128 deep"):
        parse_object(deep)
