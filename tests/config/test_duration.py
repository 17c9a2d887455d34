"""Durations as people write them."""

from __future__ import annotations

import pytest

from rocketpipe.config.duration import read_duration


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("250ms", 250),
        ("30s", 30_000),
        ("16m", 960_000),
        (" 1.5 h ", 5_400_000),
        ("1d", 86_400_000),
        ("0ms", 0),
    ],
)
def test_a_number_and_its_unit_are_milliseconds(text: str, ms: int) -> None:
    assert read_duration(text) == ms


@pytest.mark.parametrize("text", ["", "5", "-5s", "5 weeks", "1e3s", "٥s", "s", "9" * 16 + "d"])
def test_anything_else_is_refused_with_what_would_do(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration: write one as 250ms, 10s"):
        read_duration(text)
