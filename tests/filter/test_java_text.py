"""Numbers as Java reads them, checked against the answers of OpenJDK."""

from __future__ import annotations

import itertools
import json
import math
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.filter.java_text import (
    INT_MAX,
    LONG_MAX,
    double_rank,
    read_boolean,
    read_double,
    read_int,
    read_long,
    trim,
)

GOLDEN = json.loads((Path(__file__).parent / "golden" / "java_numbers.json").read_text("utf-8"))


def or_none(read: Callable[[str], float], text: str) -> float | None:
    try:
        return read(text)
    except ValueError:
        return None


def bits(value: float | None) -> str | None:
    if value is None:
        return None
    return "7ff8000000000000" if math.isnan(value) else struct.pack(">d", value).hex()


def test_every_text_reads_as_in_java() -> None:
    assert len(GOLDEN["rows"]) > 600
    for text, as_int, as_long, as_double, as_boolean in GOLDEN["rows"]:
        assert or_none(read_int, text) == as_int, text
        assert or_none(read_long, text) == as_long, text
        assert bits(or_none(read_double, text)) == as_double, text
        assert read_boolean(text) is as_boolean, text


@given(st.integers(-(2**70), 2**70))
def test_whole_numbers_are_read_up_to_their_width(number: int) -> None:
    fits_int = -INT_MAX - 1 <= number <= INT_MAX
    fits_long = -LONG_MAX - 1 <= number <= LONG_MAX
    assert or_none(read_int, str(number)) == (number if fits_int else None)
    assert or_none(read_long, str(number)) == (number if fits_long else None)


@given(st.floats())
def test_a_double_written_by_python_is_read_back(number: float) -> None:
    text = repr(number).replace("inf", "Infinity").replace("nan", "NaN")
    assert bits(read_double(text)) == bits(number)
    if math.isfinite(number):
        assert bits(read_double(f"\t{number.hex()}D ")) == bits(number)


@given(st.text())
def test_any_text_is_a_number_or_a_value_error(text: str) -> None:
    for read in (read_int, read_long, read_double):
        or_none(read, text)


@pytest.mark.parametrize("digits", [4301, 32_767])
def test_very_long_numbers_are_read_without_python_giving_up(digits: int) -> None:
    assert read_int("0" * digits + "7") == 7
    assert or_none(read_long, "1" * digits) is None
    assert read_double("1" * digits) == math.inf
    assert read_double("-0." + "0" * digits + "1") == 0
    assert or_none(read_double, "1" * digits + "x") is None
    assert or_none(read_double, "0x" + "f" * digits) is None


def test_what_is_refused_is_quoted_in_part() -> None:
    with pytest.raises(ValueError, match=r"not a whole number: 'x{40}'…"):
        read_int("x" * 1000)


@given(st.floats(), st.floats())
def test_the_rank_orders_doubles_totally(one: float, other: float) -> None:
    if one < other:
        assert double_rank(one) < double_rank(other)
    elif one == other and math.copysign(1, one) == math.copysign(1, other):
        assert double_rank(one) == double_rank(other)


def test_minus_zero_ranks_below_zero_and_nan_above_all() -> None:
    ordered = [-math.inf, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, math.inf, math.nan]
    for lower, higher in itertools.pairwise(map(double_rank, ordered)):
        assert lower < higher
    assert double_rank(math.nan) == double_rank(-math.nan)


def test_trimming_takes_control_characters_but_no_other_blanks() -> None:
    assert trim("\x00\t \x1f1 2\r\n") == "1 2"
    assert trim("\u00a01\u3000") == "\u00a01\u3000"
