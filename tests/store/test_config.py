"""Settings of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketpipe.store.config import FlushMode, StoreConfig, delays_ms, hours_of


def test_the_defaults_are_rocketmqs_but_for_the_flush_that_is_more_often() -> None:
    config = StoreConfig(root=Path("store"))
    assert (config.segment_bytes, config.queue_file_bytes) == (1 << 30, 6_000_000)
    assert (config.index_slots, config.index_entries) == (5_000_000, 20_000_000)
    assert (config.flush, config.flush_interval_ms, config.flush_bytes) == (
        FlushMode.ASYNC,
        200,
        4 << 20,
    )
    assert (config.reserved_hours, config.delete_hours) == (72, "04")
    assert (config.used_ratio, config.force_ratio, config.full_ratio) == (75, 85, 90)


def test_an_embedded_store_has_small_files_and_takes_changes() -> None:
    config = StoreConfig.embedded(Path("store"), flush=FlushMode.SYNC, segment_bytes=4096)
    assert config.queue_file_bytes == 60_000
    assert (config.flush, config.segment_bytes) == (FlushMode.SYNC, 4096)


@pytest.mark.parametrize(
    "wrong",
    [
        {"segment_bytes": 100},
        {"queue_file_bytes": 30},
        {"queue_file_bytes": 0},
        {"index_slots": 0},
        {"index_entries": 1},
        {"used_ratio": 90, "force_ratio": 85},
        {"full_ratio": 101},
        {"delay_levels": "1s 5x"},
        {"delay_levels": " "},
        {"delete_hours": "25"},
    ],
)
def test_sizes_that_hold_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        StoreConfig(root=Path("store"), **wrong)


@pytest.mark.parametrize("levels", ["1", "s", "1s 5", "x5s", "1y", "-1s", "1s 5x"])
def test_a_delay_without_number_or_unit_is_refused(levels: str) -> None:
    with pytest.raises(ValueError, match="is no delay"):
        delays_ms(levels)


def test_delay_levels_are_read_in_their_units() -> None:
    assert delays_ms("1s 2m 3h 4d") == (1000, 120_000, 10_800_000, 345_600_000)


def test_hours_of_the_day_are_read_whether_they_have_two_digits_or_one() -> None:
    assert hours_of("04;16 ; 7;") == {4, 16, 7}
    assert hours_of("") == frozenset()
    for text in ("24", "4am", "04,16", "-1"):
        with pytest.raises(ValueError, match="is no hour of the day: 00 to 23"):
            hours_of(text)
