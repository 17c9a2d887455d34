"""The append-only file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocketpipe.errors import StoreError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.commit_log import CommitLog


def test_what_is_appended_is_read_back_from_its_offset(tmp_path: Path) -> None:
    log = CommitLog(tmp_path)
    log.append(b"first")
    at = log.end
    log.append(b"second")
    assert log.read(at, 6) == b"second"
    assert log.path.read_bytes() == b"firstsecond"
    log.close()


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: whole(file, data[:2], at))
    log = CommitLog(tmp_path)
    log.append(b"a longer piece")
    assert log.read(LogOffset(0), 14) == b"a longer piece"
    log.close()


def test_a_failed_append_leaves_the_end_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = CommitLog(tmp_path)
    log.append(b"kept")

    def fail(file: int, data: bytes, at: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(StoreError, match="No space left"):
        log.append(b"lost")
    assert log.end == 4
    log.close()


def test_a_log_that_is_there_already_is_refused_by_name(tmp_path: Path) -> None:
    CommitLog(tmp_path).close()
    with pytest.raises(StoreError, match=r"commitlog/0{20} is there already.*empty directory"):
        CommitLog(tmp_path)
