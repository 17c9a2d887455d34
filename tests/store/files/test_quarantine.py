"""What a log lost is kept, up to a bound, and never goes without a word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.quarantine import Quarantine
from rocketpipe.testing.simulation.disk import SimDisk

ROOT = Path("/store/quarantine")


def giving(data: bytes) -> Callable[[int, int], bytes]:
    return lambda place, size: data[place : place + size]


def test_a_name_that_is_taken_gets_a_number_and_everything_is_kept() -> None:
    disk = SimDisk()
    kept = Quarantine(disk, ROOT, 1 << 30)
    long = bytes(range(256)) * 9000
    assert kept.keep("cut", len(long), giving(long)).name == "cut"
    assert kept.keep("cut", 3, giving(b"two")).name == "cut-2"
    assert kept.keep("cut", 30, giving(b"no more")).name == "cut-3"
    disk.crash()
    assert disk.content(ROOT / "cut") == long
    assert disk.content(ROOT / "cut-2") == b"two"
    assert disk.content(ROOT / "cut-3") == b"no more"


@pytest.mark.parametrize("real", [False, True])
def test_the_oldest_go_with_a_line_each_and_the_newest_stays(
    real: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk, root = (Disk(), tmp_path / "quarantine") if real else (SimDisk(), ROOT)
    kept = Quarantine(disk, root, 100)
    for name in ("z", "y", "x"):
        kept.keep(name, 40, giving(bytes(40)))
    assert disk.names(root) == ["x", "y"]
    assert caplog.text.count("its oldest file goes") == 1
    assert f"file={root / 'z'} bytes=40 most=100" in caplog.text
    kept.keep("w", 300, giving(bytes(300)))
    assert disk.names(root) == ["w"]
    assert caplog.text.count("its oldest file goes") == 3


def test_what_somebody_else_keeps_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    Quarantine(Disk(), tmp_path, 10).keep("x", 40, giving(bytes(40)))
    assert Disk().names(tmp_path) == ["notes", "x"]
