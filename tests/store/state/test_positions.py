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


@pytest.mark.parametrize(
    ("flush", "durable", "acknowledged", "confirmed", "published"),
    [
        (FlushMode.ASYNC, 4, None, 10, 4),
        (FlushMode.ASYNC, 4, 6, 6, 4),
        (FlushMode.ASYNC, 8, 6, 6, 6),
        (FlushMode.SYNC, 4, 6, 4, 4),
        (FlushMode.SYNC, 8, 6, 6, 6),
        (FlushMode.SYNC, 8, None, 8, 8),
    ],
)
def test_nothing_is_shown_that_is_not_acknowledged(
    flush: FlushMode, durable: int, acknowledged: int | None, confirmed: int, published: int
) -> None:
    positions = at(flush, 10, durable)
    positions.begin_acknowledged(None if acknowledged is None else LogOffset(acknowledged))
    assert (positions.confirmed, positions.published) == (confirmed, published)
    with pytest.raises(AssertionError):
        positions.dispatched = LogOffset(confirmed + 1)


def test_acknowledgements_grow_until_they_are_counted_anew() -> None:
    positions = at(FlushMode.ASYNC, 10, 4, 3)
    with pytest.raises(AssertionError):
        positions.acknowledged = LogOffset(5)  # nobody is asked
    positions.begin_acknowledged(LogOffset(1))
    assert positions.acknowledged == 3  # what was shown stays so
    positions.acknowledged = LogOffset(7)
    for lie in (6, 11):
        with pytest.raises(AssertionError):
            positions.acknowledged = LogOffset(lie)
    positions.begin_acknowledged(LogOffset(5))
    assert positions.acknowledged == 5
    positions.rewind(LogOffset(4))
    assert positions.acknowledged == 4
    positions.begin_acknowledged(None)
    assert positions.acknowledged is None
    with pytest.raises(AssertionError):
        positions.begin_acknowledged(LogOffset(5))
