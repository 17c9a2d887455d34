"""Times in plots."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rocketpipe.jobs.times import bucket_seconds, moment_after


@pytest.mark.parametrize(
    ("span", "width"),
    [(0, 1), (60, 1), (3_600, 30), (86_400, 1_800), (86_400 * 90, 86_400), (86_400 * 400, 345_600)],
)
def test_a_plot_has_about_a_hundred_points(span: float, width: int) -> None:
    assert bucket_seconds(span) == width


def test_moments_say_as_little_as_they_can() -> None:
    written = moment_after(datetime(2026, 5, 1, 22, tzinfo=UTC))
    assert written(0) == "22:00"
    assert written(1) == "22:00:01"
    assert written(7_200) == "02 May"
    assert [moment_after(None)(each) for each in (5, 60, 5_400, 7_200, 86_400)] == [
        "5 s",
        "1 min",
        "90 min",
        "2 h",
        "1 d",
    ]
