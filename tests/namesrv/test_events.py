"""Log lines that do not flood."""

from __future__ import annotations

import logging

import pytest

from rocketpipe.namesrv import events
from rocketpipe.namesrv.events import LINES_A_WINDOW, WINDOW_MS, EventLog
from rocketpipe.testing import ManualClock

LOG = logging.getLogger("rocketpipe.test_events")


async def test_what_flaps_writes_a_few_lines_and_then_a_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    said = EventLog(LOG, clock)
    with caplog.at_level(logging.INFO, LOG.name):
        for number in range(100):
            said.say(logging.INFO, "h:1", "broker lost number=%d", number)
        assert len(caplog.messages) == LINES_A_WINDOW
        said.say(logging.INFO, "h:2", "broker lost number=%d", 0)
        assert len(caplog.messages) == LINES_A_WINDOW + 1
        await clock.advance(WINDOW_MS)
        said.say(logging.INFO, "h:1", "broker lost number=%d", 100)
        said.say(logging.INFO, "h:1", "broker lost number=%d", 101)
    assert caplog.messages[-2:] == [
        f"broker lost number=100 held_back={100 - LINES_A_WINDOW}",
        "broker lost number=101",
    ]


def test_subjects_are_not_remembered_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_MAX_SUBJECTS", 10)
    said = EventLog(LOG, ManualClock())
    for number in range(100):
        said.say(logging.DEBUG, f"h:{number}", "broker lost")
    assert list(said._windows) == [f"h:{number}" for number in range(90, 100)]
