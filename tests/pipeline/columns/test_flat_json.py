"""Fields of plain bodies, beside what the definition reads of each."""

from __future__ import annotations

import json
import math
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.twins import compiled_functions, damaged

from rocketpipe.pipeline.columns import flat_json
from rocketpipe.pipeline.columns.flat_json import flat_columns
from rocketpipe.pipeline.columns.json_fields import FieldReader, NotAnObject

TWIN = "rocketpipe.pipeline.columns._flat_json"
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("p", pa.float64()),
        ("f", pa.float32()),
        ("ok", pa.bool_()),
        ("city", pa.string()),
        ("tiny", pa.int8()),
    ]
)
#: What stands in bodies, right and wrong.
VALUES = (
    *("0", "-0", "1", "-128", "128", "127", "999999999999999999", "1000000000000000000"),
    *("9223372036854775807", "9223372036854775808", "01", "1.", ".5", "1.5", "-0.0", "1e3", "1E+2"),
    *("0.1", "0.30000000000000004", "123456789012345678", "1e22", "1e23", "1e400", "-1e-400"),
    *("5e-324", "2.2250738585072011e-308", "3.4028236e38", "1e", "-", "+1", "NaN", "Infinity"),
    *("true", "false", "null", "tru", "nul", '"NaN"', '"-Infinity"', '""', '"Oslo"', '"é"', '"😀"'),
    *('"a\\nb"', '"\\u00e9"', '"\\ud800"', '"\\x"', '"\\u12"', '"a\tb"', '"open', "[]", "{}"),
    *('[1, {"a": [null]}]', '{"id": 7}', "[1,]", '{"a" 1}', "[" * 40 + "]" * 40, '"\x7f"'),
)
NAMES = ("id", "p", "f", "ok", "city", "tiny", "other", "i", "", "\\u0069d", "é")
BLANKS = ("", "", "", " ", "\n\t", "\r")


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    return bool(left == right)


def check(bodies: list[bytes]) -> int:
    """Compare what was read with the definition; gives how many were."""
    found = flat_columns(pa.array(bodies, pa.binary()), SCHEMA)
    if found is None:
        return 0
    batch, read = found
    batch.validate(full=True)
    reader = FieldReader(list(SCHEMA))
    for row in [row for row, was_read in enumerate(read.tolist()) if was_read]:
        try:
            values, misfits = reader.read(bodies[row])
        except NotAnObject as error:
            raise AssertionError(f"{bodies[row]!r} was read: {error}") from error
        assert misfits is None, bodies[row]
        wanted = pa.array([values[2]], pa.float64()).cast(pa.float32(), safe=False)
        values[2] = wanted[0].as_py()
        for got, value in zip(batch.slice(row, 1).to_pylist()[0].values(), values, strict=True):
            assert same(got, value), (bodies[row], got, value)
    return int(read.sum())


def a_body(chance: random.Random) -> bytes:
    pieces = []
    for _ in range(chance.randrange(6)):
        blanks = [chance.choice(BLANKS) for _ in range(4)]
        name, value = chance.choice(NAMES), chance.choice(VALUES)
        pieces.append(f'{blanks[0]}"{name}"{blanks[1]}:{blanks[2]}{value}{blanks[3]}')
    text = chance.choice(BLANKS) + "{" + ",".join(pieces) + "}" + chance.choice(BLANKS)
    body = text.encode("utf-8", "surrogatepass")
    return damaged(body, chance) if chance.random() < 0.3 else body


@given(st.builds(random.Random, st.integers(0, (1 << 32) - 1)))
@settings(max_examples=100)
def test_what_is_read_is_what_the_definition_reads(chance: random.Random) -> None:
    compiled_functions(TWIN)
    check([a_body(chance) for _ in range(20)])


@given(st.lists(st.floats(allow_nan=False) | st.integers(-(1 << 70), 1 << 70), min_size=1))
def test_numbers_are_the_same_to_the_last_bit(numbers: list[float]) -> None:
    compiled_functions(TWIN)
    bodies = [json.dumps({"p": number, "id": number}).encode() for number in numbers]
    check(bodies)
    floats = [json.dumps({"p": number}).replace("Infinity", "1e999") for number in numbers]
    assert check([text.encode() for text in floats]) == len(floats)


def test_plain_bodies_are_read() -> None:
    compiled_functions(TWIN)
    plain = [
        b'{"id":1,"p":2.5,"city":"Oslo","ok":true,"tiny":-128}',
        b' { "city" : "R\xc3\xb8ros" , "more" : {"a": [1, "x\\n", null, {}]} , "id" : null } ',
        b"{}",
        b'{"id":1,"id":2,"city":"first","city":"second"}',
        b'{"city":"gone","city":null,"ok":false}',
    ]
    assert check(plain) == len(plain)


def test_what_is_not_plain_is_left() -> None:
    compiled_functions(TWIN)
    odd = [b"", b"null", b"[]", b"{", b'{"id":1}}', b'{"id":"1"}', b'{"tiny":128}', b'{"city":1}']
    odd += [b'{"city":"\\u00e9"}', b'{"id":1,}', b"\xef\xbb\xbf{}", b'{"city":"\xff"}']
    assert check(odd) == 0


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us", tz="UTC"), pa.decimal128(9, 2)])
def test_other_types_are_left_altogether(kind: pa.DataType) -> None:
    bodies = pa.array([b"{}"], pa.binary())
    assert flat_columns(bodies, pa.schema([("id", pa.int64()), ("at", kind)])) is None
    assert flat_columns(pa.array([None, b"{}"], pa.binary()), SCHEMA) is None
    assert flat_columns(bodies, pa.schema([])) is None


def test_in_python_all_bodies_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    pure = compiled_functions(TWIN)["flat_fields"][1]
    monkeypatch.setattr(flat_json, "flat_fields", pure)
    assert check([b'{"id":1,"city":"Oslo"}']) == 0


def test_what_lies_where_no_number_is_warns_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rooms are not cleared: what was there before may be a NaN that numpy warns of."""
    compiled_functions(TWIN)

    def used(shape: Any, kind: Any) -> Any:
        return np.full(shape, 0x7FF0000000000001 if kind is np.int64 else 1, kind)

    monkeypatch.setattr(flat_json, "np", SimpleNamespace(**vars(np) | {"empty": used}))
    assert check([b'{"id":1}', b'{"f":1.5}', b'{"f":1e300}']) == 3


def test_a_slice_of_bodies_is_read_where_it_lies() -> None:
    compiled_functions(TWIN)
    bodies = pa.array([b"no", b'{"id":1}', b'{"id":2,"city":"x"}', b"no"], pa.binary())
    found = flat_columns(bodies.slice(1, 2), SCHEMA)
    assert found is not None
    batch, read = found
    assert read.all()
    assert batch.column("id").to_pylist() == [1, 2]
    assert batch.column("city").to_pylist() == [None, "x"]
