"""The audit's file, as the commands that serve are told of it."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import pytest

from rocketpipe.auth.auditing.audit import Audit
from rocketpipe.auth.config import AuthConfig
from rocketpipe.cli.serving import audit_option


def test_lines_are_in_the_file_for_the_length_of_the_block(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    with audit_option.written(AuthConfig(authentication=True, audit_file=file)):
        Audit().came("alice", "10.0.0.7:1")
    Audit().came("bob", "10.0.0.7:1")
    assert "alice" in file.read_text()
    assert "bob" not in file.read_text()
    with audit_option.written(AuthConfig()):
        pass


def test_a_file_that_stays_empty_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING),
        audit_option.written(AuthConfig(audit_file=tmp_path / "audit.log")),
    ):
        assert "stays empty" in caplog.text


def test_the_flag_says_the_same_as_the_setting() -> None:
    options = argparse.Namespace(audit_log="a.log")
    assert audit_option.flags(options) == [("auditLogPath", "a.log", "--audit-log")]
