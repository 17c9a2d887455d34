"""Whether a store takes messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.store.errors import StoreClosed, StoreFailed, StoreFollows, StoreFull
from rocketpipe.store.state.health import Health, StoreState

FULL = StoreFull(Path("store"), 10, "no space left")


def test_no_room_lasts_until_an_append_goes_through() -> None:
    health = Health()
    assert (health.state, health.reason) == (StoreState.RUNNING, None)
    health.full(FULL)
    assert (health.state, health.reason) == (StoreState.FULL, FULL)
    health.check_append()  # each append tries again
    health.has_room()
    assert health.state is StoreState.RUNNING


def test_above_the_watermark_nothing_is_tried() -> None:
    health = Health()
    health.watermark(FULL)
    assert health.state is StoreState.FULL
    with pytest.raises(StoreFull, match="no space left"):
        health.check_append()
    health.has_room()
    assert health.state is StoreState.FULL
    health.watermark(None)
    health.check_append()


def test_a_failure_stays_with_its_first_reason() -> None:
    health = Health()
    assert health.fail("EIO")
    assert not health.fail("something that followed")
    health.has_room()
    assert health.state is StoreState.FAILED
    with pytest.raises(StoreFailed, match="EIO"):
        health.check_append()


def test_what_is_closed_stays_closed() -> None:
    health = Health()
    health.close()
    health.fail("EIO")
    assert health.state is StoreState.CLOSED
    assert isinstance(health.reason, StoreClosed)
    with pytest.raises(StoreClosed):
        health.check_append()


def test_who_follows_takes_the_log_of_another_and_no_messages() -> None:
    health = Health()
    health.follows = True
    with pytest.raises(StoreFollows):
        health.check_append()
    health.check_append(raw=True)
    health.watermark(FULL)
    with pytest.raises(StoreFull):
        health.check_append(raw=True)
