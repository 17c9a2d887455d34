"""Damaged records are told once, and remembered as far as memory may go."""

from __future__ import annotations

import pytest

from rocketpipe.store.state import damage
from rocketpipe.store.state.damage import DamagedRecords


def test_each_damaged_record_is_told_once_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    damaged = DamagedRecords()
    for _ in range(3):
        damaged.note(77, "its checksum is gone", "topic=t queue_id=0")
    damaged.note(99, "no magic", "in the log")
    assert damaged.count == 2
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert "passed over log_offset=77 topic=t queue_id=0 reason=its checksum" in caplog.text
    assert damaged.places() == [(77, "its checksum is gone"), (99, "no magic")]


def test_it_is_told_what_is_done_about_it(caplog: pytest.LogCaptureFixture) -> None:
    damaged = DamagedRecords(skip=False)
    damaged.note(77, "no magic", "in the log")
    assert "who reads there is refused" in caplog.text


def test_no_more_are_remembered_than_memory_is_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage, "_MOST_KNOWN", 3)
    damaged = DamagedRecords()
    for at in range(5):
        damaged.note(at, "no magic", "in the log")
    assert (damaged.count, len(damaged.places())) == (5, 3)
    assert 4 in damaged
    assert 0 not in damaged


def test_what_may_be_brought_back_is_not_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    damaged = DamagedRecords()
    found: list[int] = []

    def first_only(at: int) -> bool:
        found.append(at)
        return at == 77

    damaged.found = first_only
    for at in (77, 99, 77):
        damaged.note(at, "no magic", "in the log")
    assert found == [77, 99]
    assert (damaged.awaits(77), damaged.skips(77)) == (True, False)
    assert (damaged.awaits(99), damaged.skips(99)) == (False, True)
    assert "refused log_offset=77" in caplog.text
    assert "passed over log_offset=99" in caplog.text
    damaged.await_none()
    assert (damaged.awaits(77), damaged.skips(77)) == (False, True)
    assert not damaged.skips(5), "of which nothing is known"
