"""The text of single options."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from rocketpipe.pipeline.options.text import (
    OptionError,
    byte_count,
    count,
    flag,
    json_object,
    moment_ms,
    one_of,
    queue_of,
)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (count, "7", 7),
        (byte_count, "1048576", 1 << 20),
        (byte_count, "64m", 64 << 20),
        (byte_count, "2 GiB", 2 << 30),
        (byte_count, "3KB", 3 << 10),
        (flag, "TRUE", True),
        (flag, "false", False),
        (moment_ms, "1700000000123", 1_700_000_000_123),
        (moment_ms, "1970-01-01T00:00:01", 1000),
        (moment_ms, "1970-01-01T01:00:00+01:00", 0),
    ],
)
def test_good_text_is_read(parse: Any, text: str, value: object) -> None:
    assert parse("opt", text) == value


@pytest.mark.parametrize(
    ("parse", "text", "next_step"),
    [
        (count, "0", "1 or more"),
        (count, "-3", "1 or more"),
        (count, "1e3", "1 or more"),
        (count, "9" * 40, "1 or more"),
        (byte_count, "0", "number of bytes"),
        (byte_count, "64 miles", "number of bytes"),
        (byte_count, "999999999999999999t", "number of bytes"),
        (flag, "yes", "true, false"),
        (moment_ms, "yesterday", "milliseconds since 1970"),
        (moment_ms, "-5", "milliseconds since 1970"),
    ],
)
def test_bad_text_names_the_option_and_the_next_step(parse: Any, text: str, next_step: str) -> None:
    with pytest.raises(OptionError, match="option 'opt'") as caught:
        parse("opt", text)
    assert next_step in str(caught.value)


def test_one_of_names_the_choices() -> None:
    assert one_of("opt", "SKIP", ("fail", "skip")) == "skip"
    with pytest.raises(OptionError, match="choose one of fail, skip"):
        one_of("opt", "ignore", ("fail", "skip"))


@pytest.mark.parametrize("text", ["{", "[]", "7", "[" * 100_000, "nul"])
def test_what_is_no_json_object_shows_an_example(text: str) -> None:
    with pytest.raises(OptionError, match="EXAMPLE"):
        json_object("opt", text, "EXAMPLE")


@pytest.mark.parametrize("number", ["-1", "x", True, 1.5, None, 1 << 31, "²"])
def test_queues_have_numbers(number: object) -> None:
    with pytest.raises(OptionError, match="queues have numbers"):
        queue_of("opt", "orders", "broker-a", number)


def test_an_error_comes_through_a_pickle() -> None:
    error = pickle.loads(pickle.dumps(OptionError("opt", "is wrong")))
    assert str(error) == "option 'opt' is wrong"
