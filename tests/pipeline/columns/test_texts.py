"""Hashes and rules for whole columns, compared with what does one text at a time."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.client.producer.selectors import java_hash_of
from rocketpipe.pipeline.columns.texts import (
    Wrong,
    first_wrong,
    integer_hashes,
    java_hashes,
    texts_of,
)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=20))
def test_texts_hash_as_in_java(texts: list[str]) -> None:
    column = pa.array(["before", *texts], pa.string()).slice(1)
    assert java_hashes(column).tolist() == [java_hash_of(text) for text in texts]


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1))
def test_whole_numbers_hash_as_in_java(numbers: list[int]) -> None:
    column = pa.array(numbers, pa.int64()).to_numpy()
    assert integer_hashes(column).tolist() == [java_hash_of(number) for number in numbers]


def test_a_null_has_no_bytes_and_no_hash() -> None:
    column = pa.array(["ab", None, "c"])
    data, starts = texts_of(column)
    assert data.tobytes() == b"abc"
    assert starts.tolist() == [0, 2, 2, 3]
    assert java_hashes(column).tolist() == [java_hash_of("ab"), 0, java_hash_of("c")]


@pytest.mark.parametrize(
    ("texts", "wrong"),
    [
        (["a", "b c", None], None),
        ([], None),
        (["a", "b\x01"], Wrong(1, "has 0x01 in it, a separator")),
        (["\x02", "b"], Wrong(0, "has 0x02 in it, a separator")),
        (["a", None, ""], Wrong(2, "is blank")),
        (["a", " \t"], Wrong(1, "is blank")),
    ],
)
def test_the_first_text_that_no_property_carries_is_found(
    texts: list[str | None], wrong: Wrong | None
) -> None:
    assert first_wrong(pa.array(texts, pa.string())) == wrong


def test_a_key_is_one_word() -> None:
    found = first_wrong(pa.array(["a", "b c"]), one_word=True)
    assert found == Wrong(1, "has a blank in it, which separates keys")


def test_bytes_that_are_no_text_are_found() -> None:
    column = pa.array([b"fine", b"\xff"], pa.binary()).view(pa.string())
    assert first_wrong(column) == Wrong(1, "is not UTF-8")
