"""One file of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.log.segment import Segment


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    path = tmp_path / "segment"
    path.write_bytes(bytes(100))
    return Segment(Disk(), path, base=1000, size=100)


def test_positions_are_those_of_the_whole_run(segment: Segment) -> None:
    segment.write(1010, b"abc")
    segment.sync()
    segment.forget_cached()
    assert segment.read(1009, 5) == b"\x00abc\x00"
    assert segment.path.read_bytes()[10:13] == b"abc"


def test_a_read_ends_with_the_segment(segment: Segment) -> None:
    segment.write(1098, b"yz")
    assert segment.read(1098, 50) == b"yz"
    assert segment.read(1100, 50) == b""


@pytest.mark.parametrize("offset", [999, 1098])
def test_what_belongs_elsewhere_is_not_written(segment: Segment, offset: int) -> None:
    with pytest.raises(AssertionError):
        segment.write(offset, b"abc")


def test_a_file_is_opened_when_it_is_used_and_again_when_it_was_closed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    segment = Segment(Disk(), path, base=0, size=3)
    segment.close()
    with pytest.raises(DiskError):
        segment.read(0, 3)
    path.write_bytes(b"old")
    assert segment.read(0, 3) == b"old"
    path.unlink()
    path.write_bytes(b"new")
    assert segment.read(0, 3) == b"old"  # it was kept open
    segment.close()
    segment.close()
    assert segment.read(0, 3) == b"new"
    segment.close()
