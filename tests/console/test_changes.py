"""What people changed: kept, bounded, and in the log."""

from __future__ import annotations

import logging

import pytest

from rocketpipe.console.changes import KEPT, Change, ChangeLog


def test_the_last_ones_are_kept_the_latest_first() -> None:
    changes = ChangeLog()
    for number in range(KEPT + 5):
        changes.add(Change(number, "ana", "::1", f"change {number}", "ok", ok=True))
    assert [each.at_ms for each in changes.latest(2)] == [KEPT + 4, KEPT + 3]
    assert len(changes.latest(10 * KEPT)) == KEPT


def test_a_line_of_the_log_has_no_second_line_in_it(caplog: pytest.LogCaptureFixture) -> None:
    changes = ChangeLog()
    with caplog.at_level(logging.INFO):
        changes.add(Change(0, "a\nb", "::1", "x\r\ny" * 1000, "failed: \n", ok=False))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "\n" not in record.getMessage()
    assert len(changes.latest(1)[0].what) == 500
