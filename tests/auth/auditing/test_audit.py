"""Lines of the audit."""

from __future__ import annotations

import logging

import pytest

from rocketpipe.auth.auditing.audit import AUDIT_LOGGER, Audit, quoted


def test_a_line_says_who_did_what_from_where(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, AUDIT_LOGGER)
    Audit().did("alice", "10.0.0.7:5", "DeleteTopic", "Topic:orders")
    assert caplog.messages == [
        "user=alice from=10.0.0.7:5 does=DeleteTopic on=Topic:orders result=allowed"
    ]


def test_nothing_a_peer_says_ends_a_line_early(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, AUDIT_LOGGER)
    Audit().refused('a\nuser=root result=allowed "', "10.0.0.7:5", "x", "", "no")
    (line,) = caplog.messages
    assert "\n" not in line
    assert line.startswith('user="a\\nuser=root')
    assert len(quoted("x" * 10_000)) < 300


def test_of_many_refusals_some_have_lines_and_the_rest_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    audit = Audit(refusals_a_minute=3)
    for _ in range(10):
        audit.refused("x", "10.0.0.7:5", "x", "", "no")
    assert len(caplog.messages) == 3
