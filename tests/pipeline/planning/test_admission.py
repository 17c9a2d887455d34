"""What a batch takes of each queue."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.pipeline.planning.admission import share_out, share_out_bytes


def test_a_short_queue_is_not_held_up_by_a_long_one() -> None:
    assert share_out({"long": 1000, "short": 10}, 100) == {"long": 90, "short": 10}
    assert share_out({"a": 5, "b": 5, "c": 7}, 4) == {"a": 1, "b": 1, "c": 2}


def test_who_has_most_pending_goes_first_where_not_all_can() -> None:
    assert share_out({"a": 1, "b": 9, "c": 3}, 1) == {"a": 0, "b": 1, "c": 0}


def test_one_message_larger_than_the_limit_is_let_through() -> None:
    assert share_out_bytes({"a": 2, "b": 3}, {"a": 2000, "b": 3000}, 10) == {"a": 0, "b": 1}
    assert share_out_bytes({}, {}, 10) == {}


PENDING = st.dictionaries(st.integers(0, 9), st.integers(0, 500))


@given(PENDING, st.integers(1, 2000))
def test_exactly_the_limit_is_taken_if_there_is_so_much(
    pending: dict[int, int], limit: int
) -> None:
    granted = share_out(pending, limit)
    assert sum(granted.values()) == min(limit, sum(pending.values()))
    assert all(0 <= granted[key] <= pending[key] for key in pending)


@given(PENDING, st.integers(1, 40), st.integers(1, 20_000))
def test_bytes_stay_within_the_limit(pending: dict[int, int], each: int, limit: int) -> None:
    sizes = {key: count * each for key, count in pending.items()}
    granted = share_out_bytes(pending, sizes, limit)
    assert sum(granted.values()) * each <= max(limit, each)
    assert any(granted.values()) == any(pending.values())
