"""Digests of rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.twins import WAYS, each_way

from rocketpipe.tables import digests
from rocketpipe.tables.digests import hashed, of_bodies, of_column, of_rows


@pytest.fixture(autouse=True, scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    with each_way(request.param, digests):
        yield


def test_texts_have_the_digest_that_xxh64_gives() -> None:
    texts = pa.array([b"", b"a", b"abc", b"0123456789abcdef0123456789abcdef!"], pa.binary())
    known = [0xEF46DB3751D8E999, 0xD24EC4F1A98C6E5B, 0x44BC2CF5AD770999]
    assert hashed(texts).tolist()[:3] == known


def test_a_digest_does_not_depend_on_what_stands_beside() -> None:
    made = random.Random(7)
    texts = [made.randbytes(length) for length in (*range(140), 1000, 3, 70_000)]
    together = hashed(pa.array(texts, pa.large_binary()), 42).tolist()
    alone = [int(hashed(pa.array([text], pa.binary()), 42)[0]) for text in texts]
    assert together == alone
    assert hashed(pa.array(texts, pa.binary()).slice(5, 60), 42).tolist() == alone[5:65]
    assert len(set(alone)) == len(alone)


def test_bodies_have_sparks_digest() -> None:
    # SELECT xxhash64(CAST('{"city": "c0", "n": 3}' AS BINARY)), xxhash64(CAST('' AS BINARY))
    found = of_bodies(pa.array([b"", None], pa.binary()))
    assert found[0].as_py() == -7444071767201028348


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int32(), [0, 1, -1, None, 2**31 - 1]),
        (pa.uint64(), [0, 2**64 - 1, None]),
        (pa.float64(), [0.0, -0.0, 1.5, None, float("nan"), float("inf")]),
        (pa.float32(), [0.5, None, 2.0]),
        (pa.bool_(), [True, False, None]),
        (pa.string(), ["", "a", "b", None, "ab"]),
        (pa.binary(), [b"", b"\0", None]),
        (pa.date32(), [0, 1, None]),
        (pa.timestamp("us", "UTC"), [0, 1, None]),
        (pa.decimal128(10, 2), [Decimal("1.00"), Decimal("-1.00"), None]),
        (
            pa.list_(pa.string()),
            [[], ["a"], ["a", ""], ["", "a"], ["aa"], None, [None], [None, None]],
        ),
        (pa.list_(pa.list_(pa.int32())), [[], [[]], [[1]], [[1], []], [[], [1]], None]),
        (
            pa.struct([("x", pa.int32()), ("y", pa.string())]),
            [{"x": 1, "y": "a"}, {"x": None, "y": "a"}, {"x": 1, "y": None}, None],
        ),
        (
            pa.map_(pa.string(), pa.int32()),
            [[], [("a", 1)], [("a", 2)], [("a", 1), ("b", 1)], [("a", None)], None],
        ),
    ],
)
def test_values_that_differ_have_other_digests(kind: pa.DataType, values: list[Any]) -> None:
    column = pa.array(values, kind)
    digests = of_column(column).tolist()
    assert len(set(digests)) == len(values)
    assert of_column(column.slice(1)).tolist() == digests[1:]
    doubled = pa.concat_arrays([column, column])
    assert of_column(doubled).tolist() == digests * 2


def test_a_column_that_is_coded_or_null_has_the_same_digests() -> None:
    column = pa.array(["a", "b", None, "a"])
    assert of_column(column.dictionary_encode()).tolist() == of_column(column).tolist()
    assert of_column(pa.nulls(2)).tolist() == of_column(pa.nulls(2, pa.int64())).tolist()


def test_what_has_no_digest_is_told() -> None:
    with pytest.raises(TypeError, match="no digest of"):
        of_column(pa.array([b"12"], pa.binary(2)))


def test_a_value_counts_in_its_own_column() -> None:
    one, other = np.array([1, 2], np.uint64), np.array([2, 1], np.uint64)
    first, second = of_rows([one, other], 2).tolist()
    assert first != second
    assert of_rows([one, other], 2).tolist() != of_rows([other, one], 2).tolist()
    assert of_rows([], 2).tolist() == [0, 0]
