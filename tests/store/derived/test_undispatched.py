from __future__ import annotations

import pytest

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.derived import undispatched
from rocketpipe.store.derived.undispatched import UndispatchedRecords
from rocketpipe.store.log.puts import Appended


def record(at: int) -> Appended:
    return Appended(LogOffset(at), 100, QueueOffset(at // 100), 7, "orders")


def kept(*starts: int) -> UndispatchedRecords:
    """Appends of two records each."""
    records = UndispatchedRecords()
    for start in starts:
        records.add(start, start + 200, [[record(start)], [record(start + 100)]])
    return records


def test_what_follows_each_other_is_given_at_once() -> None:
    records = kept(0, 200, 400)
    assert records.take(0, 600) == (600, [record(at) for at in range(0, 600, 100)])


def test_nothing_is_given_before_it_was_confirmed() -> None:
    records = kept(0, 200, 400)
    assert records.take(0, 599) == (400, [record(at) for at in range(0, 400, 100)])
    assert records.take(0, 199) is None
    assert records.take(400, 600) == (600, [record(400), record(500)])


def test_it_is_given_again_until_what_is_behind_it_is_asked_for() -> None:
    records = kept(0, 200)
    assert records.take(0, 400) == records.take(0, 400)
    assert records.take(400, 400) is None
    assert len(records) == 0


def test_what_is_not_here_is_left_to_the_log_up_to_where_it_is_again() -> None:
    records = kept(0, 600)
    assert records.take(0, 800) == (200, [record(0), record(100)])
    assert records.take(200, 800) is None
    assert records.next_start(200, 800) == 600
    assert records.next_start(200, 500) == 500
    assert records.take(600, 800) == (800, [record(600), record(700)])
    assert records.next_start(800, 900) == 900


def test_records_inside_of_an_append_are_left_to_the_log() -> None:
    records = kept(0, 200)
    assert records.take(100, 400) is None
    assert records.next_start(100, 400) == 200


def test_no_more_is_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undispatched, "UNDISPATCHED_BYTES", 300)
    records = kept(0, 200, 400, 600)
    assert len(records) == 2
    assert records.is_full
    assert records.take(400, 800) is None
    assert not records.is_full
    records.add(800, 1000, [[record(800)]])
    assert records.next_start(400, 1000) == 800


def test_what_was_passed_leaves_room_for_what_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undispatched, "UNDISPATCHED_BYTES", 300)
    records = kept(0, 200)
    assert records.is_full
    records.passed(200)
    assert not records.is_full
    records.add(400, 600, [[record(400)]])
    assert records.take(200, 600) == (600, [record(200), record(300), record(400)])


def test_bytes_are_given_one_append_at_a_time_up_to_where_the_next_begins() -> None:
    records = UndispatchedRecords()
    records.add_bytes(0, b"some", 8)  # with a filler behind them
    records.add_bytes(8, b"more", 12)
    assert records.take(0, 12) == (8, b"some")
    assert records.take(8, 12) == (12, b"more")
    assert records.take(8, 11) is None


def test_a_change_of_the_callers_lists_changes_nothing() -> None:
    records = UndispatchedRecords()
    placed = [[record(0)]]
    records.add(0, 100, placed)
    placed[0].clear()
    assert records.take(0, 100) == (100, [record(0)])


def test_all_can_be_forgotten() -> None:
    records = kept(0, 200)
    records.forget()
    assert records.take(0, 400) is None
    assert records.next_start(0, 400) == 400
