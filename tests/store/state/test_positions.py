"""Positions of a log, and what may not be said of them."""

from __future__ import annotations

import pytest

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import FlushMode
from rocketpipe.store.state.positions import Positions


def at(flush: FlushMode, written: int, durable: int = 0, dispatched: int = 0) -> Positions:
    positions = Positions(flush)
    positions.written = LogOffset(written)
    positions.durable = LogOffset(durable)
    positions.dispatched = LogOffset(dispatched)
    return positions


def test_readers_see_what_is_written_or_what_is_durable_by_the_mode() -> None:
    assert at(FlushMode.ASYNC, 10, 4).confirmed == 10
    assert at(FlushMode.SYNC, 10, 4).confirmed == 4


@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("written", 9),  # goes back
        ("durable", 11),  # beyond what is written
        ("durable", 3),  # goes back
        ("dispatched", 5),  # beyond what is confirmed
        ("dispatched", 1),  # goes back
    ],
)
def test_a_move_that_would_be_a_lie_is_refused(name: str, to: int) -> None:
    positions = at(FlushMode.SYNC, 10, 4, 2)
    with pytest.raises(AssertionError):
        setattr(positions, name, LogOffset(to))
    assert (positions.written, positions.durable, positions.dispatched) == (10, 4, 2)


def test_only_a_rewind_goes_back_and_takes_what_was_dispatched_along() -> None:
    positions = at(FlushMode.ASYNC, 10, 4, 8)
    positions.rewind(LogOffset(6))
    assert (positions.written, positions.durable, positions.dispatched) == (6, 6, 6)
    positions.rewind(LogOffset(9), dispatched=LogOffset(3))
    assert (positions.written, positions.durable, positions.dispatched) == (9, 9, 3)
