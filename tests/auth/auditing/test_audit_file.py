"""The audit in a file of its own."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpipe.auth.auditing.audit import AUDIT_LOGGER, Audit
from rocketpipe.auth.auditing.audit_file import AuditFile
from rocketpipe.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Iterator[AuditFile]:
    made = AuditFile(tmp_path / "logs" / "audit.log", 1000, 3)
    made.install()
    yield made
    made.uninstall()


def test_a_line_is_with_the_system_when_it_was_told(file: AuditFile) -> None:
    Audit().did("alice", "10.0.0.7:1", "DeleteTopic", "Topic:orders\nresult=allowed")
    (line,) = file.path.read_text().splitlines()
    assert line.startswith("time=20")
    assert line.endswith(
        'Z user=alice from=10.0.0.7:1 does=DeleteTopic on="Topic:orders\\nresult=allowed" '
        "result=allowed"
    )
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.path.parent.stat().st_mode & 0o777 == 0o700
    assert not logging.getLogger(AUDIT_LOGGER).propagate  # it is nowhere else


def test_files_are_so_long_and_so_many(file: AuditFile) -> None:
    for number in range(100):
        Audit().did(f"user-{number}", "10.0.0.7:1", "DeleteTopic", "Topic:orders")
    names = sorted(each.name for each in file.path.parent.iterdir())
    assert names == ["audit.log", "audit.log.1", "audit.log.2"]
    assert all(each.stat().st_size <= 1000 for each in file.path.parent.iterdir())
    assert "user-99" in file.path.read_text()
    assert all(each.stat().st_mode & 0o777 == 0o600 for each in file.path.parent.iterdir())


def test_a_full_disk_holds_nobody_up_and_is_told_of_afterwards(
    file: AuditFile, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    audit, write = Audit(), os.write
    audit.did("alice", "10.0.0.7:1", "DeleteTopic", "Topic:first")
    # A part of a line fits: it must not stay there.
    monkeypatch.setattr(os, "write", lambda to, data: write(to, data[:10]))
    audit.did("bob", "10.0.0.7:1", "DeleteTopic", "Topic:lost")
    audit.did("bob", "10.0.0.7:1", "DeleteTopic", "Topic:lost")
    monkeypatch.undo()
    audit.did("carol", "10.0.0.7:1", "DeleteTopic", "Topic:last")
    lines = file.path.read_text().splitlines()
    assert [line.split(" ", 1)[1].split(" ")[0] for line in lines] == [
        "user=alice",
        "lines_lost=2",
        "user=carol",
    ]
    assert file.lost == 2
    assert caplog.text.count("the audit cannot be written") == 1


def test_a_line_that_was_cut_short_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text("time=2026 user=ali")
    path.chmod(0o644)
    file = AuditFile(path, 1000, 1)
    file.install()
    try:
        Audit().came("bob", "10.0.0.7:1")
        # Somebody else's rotation moves it away.
        path.rename(tmp_path / "moved")
        Audit().came("carol", "10.0.0.7:1")
    finally:
        file.uninstall()
    first, second = (tmp_path / "moved").read_text().splitlines()
    assert first == "time=2026 user=ali"
    assert "user=bob" in second
    assert "user=carol" in path.read_text()
    assert (tmp_path / "moved").stat().st_mode & 0o777 == 0o600


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="auditLogPath"):
        AuditFile(tmp_path / "file" / "audit.log", 1000, 1)


def test_the_log_has_the_lines_again_when_the_file_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = AuditFile(tmp_path / "audit.log", 1000, 1)
    file.install()
    file.uninstall()
    with caplog.at_level(logging.INFO, AUDIT_LOGGER):
        Audit().came("bob", "10.0.0.7:1")
    assert "user=bob" in caplog.text
