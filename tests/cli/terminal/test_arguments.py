"""Tests of times and places as people type them."""

from __future__ import annotations

import argparse

import pytest

from rocketpipe.cli.terminal.arguments import (
    Place,
    Where,
    count,
    delay_level,
    duration_ms,
    port,
    time_ms,
)

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [("500ms", 500), ("30s", 30_000), ("1.5m", 90_000), ("2h", 7_200_000), ("1d", 86_400_000)],
)
def test_durations(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "5", "s", "-1s", "1 week"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="such as 30s"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("2h ago", NOW - 7_200_000),
        ("1700000000001", NOW + 1),
        ("2023-11-14T22:13:20Z", NOW),
        ("2023-11-15 00:13:20+02:00", NOW),
    ],
)
def test_times(text: str, expected: int) -> None:
    assert time_ms(text, NOW) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", Place(Where.EARLIEST)),
        ("latest", Place(Where.LATEST)),
        ("42", Place(Where.OFFSET, 42)),
        ("+5", Place(Where.BY, 5)),
        ("-5", Place(Where.BY, -5)),
        ("now", Place(Where.TIME, NOW)),
    ],
)
def test_places(text: str, expected: Place) -> None:
    assert Place.parse(text, NOW) == expected


def test_what_is_no_place_says_what_would_be_one() -> None:
    with pytest.raises(ValueError, match=r"'soon' is no time.*earliest, latest, an offset"):
        Place.parse("soon", NOW)


def test_a_count_is_one_or_more() -> None:
    assert count("12") == 12
    for wrong in ("0", "-1", "x", "1.5", "٣", "99999999999"):
        with pytest.raises(argparse.ArgumentTypeError, match="1 or more"):
            count(wrong)


def test_a_port_is_one_that_there_can_be() -> None:
    assert (port("0"), port("65535")) == (0, 65535)
    for text in ("65536", "-1", "http", "", "²"):
        with pytest.raises(argparse.ArgumentTypeError, match="is not a port"):
            port(text)


def test_a_level_of_delay_is_one_of_rocketmqs() -> None:
    assert [delay_level(text) for text in ("1", "18")] == [1, 18]
    for text in ("0", "19", "-1", "x"):
        with pytest.raises(argparse.ArgumentTypeError, match=r"is no level: .* --delay"):
            delay_level(text)
