"""What this machine gives a broker is looked at."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.cli.serving import host_checks
from rocketpipe.client.admin.findings import Level
from rocketpipe.descriptors import Shares


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_a_directory_that_serves_is_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100 << 30, 10 << 30, 90 << 30))
    tmp_path.chmod(0o700)
    found = host_checks.store_directory(tmp_path)
    assert [each.level for each in found] == [Level.OK, Level.OK]
    assert found[1].detail == "90.0 GiB free, 10% used"


@pytest.mark.parametrize(
    ("usage", "level"),
    [
        (Usage(100 << 30, 91 << 30, 9 << 30), Level.PROBLEM),
        # What only root may use is of no use to a broker.
        (Usage(100 << 30, 60 << 30, 20 << 30), Level.WARNING),
        (Usage(4 << 30, 3 << 30, 1 << 30), Level.WARNING),
    ],
)
def test_little_room_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, usage: Usage, level: Level
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert host_checks.store_directory(tmp_path)[-1].level is level


def test_what_is_no_directory_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path, reason in ((tmp_path / "none", "is not there"), (file, "is no directory")):
        (found,) = host_checks.store_directory(path)
        assert (found.level, found.detail) == (Level.PROBLEM, reason)


def test_who_may_not_write_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda _, mode: not mode & os.W_OK)
    (tmp_path / "lock").touch()
    permission, foreign = host_checks.store_directory(tmp_path)[:2]
    assert (permission.level, permission.detail) == (
        Level.PROBLEM,
        "may not be written by this user",
    )
    assert foreign.detail.startswith("lock in it")


def test_everybody_may_not_write_to_a_store(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert host_checks.store_directory(tmp_path)[0].level is Level.WARNING


@pytest.mark.parametrize(
    ("limit", "level"), [(1024, Level.WARNING), (1_000_000, Level.OK), (-1, Level.OK)]
)
def test_open_files_are_enough_or_not(
    monkeypatch: pytest.MonkeyPatch, limit: int, level: Level
) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert host_checks.open_files().level is level


def test_a_limit_below_what_is_set_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_checks, "shares", lambda: Shares(10_000, 256, 10_000))
    assert host_checks.too_few_files(BrokerConfig(data=tmp_path)) == []
    monkeypatch.setattr(host_checks, "shares", lambda: Shares(256, 128, 500))
    connections, files = host_checks.too_few_files(BrokerConfig(data=tmp_path))
    assert connections.startswith("maxConnections=10000: 500 counts")
    assert files.startswith("maxOpenFiles=512: 256 counts")
