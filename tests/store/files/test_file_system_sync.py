"""A sync of everything, and whether it can be believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.store.files.disk_error import DiskError
from rocketpipe.store.files.file_system_sync import FileSystemSync, tells_errors


@pytest.mark.parametrize(
    ("system", "release", "expected"),
    [
        ("linux", "5.8.0-1", True),
        ("linux", "6.1.0", True),
        ("linux", "5.7.19", False),
        ("linux", "4.19.0", False),
        ("linux", "unknown", False),
        ("darwin", "23.1.0", False),
    ],
)
def test_a_sync_of_everything_is_believed_where_it_tells_errors(
    system: str, release: str, expected: bool
) -> None:
    assert tells_errors(system, release) is expected


def test_a_sync_of_everything_that_fails_is_an_error(tmp_path: Path) -> None:
    with FileSystemSync(tmp_path) as everything:
        everything._call, everything._descriptor = (lambda descriptor: -1), 0
        with pytest.raises(DiskError, match="sync everything around"):
            everything.sync()
        everything._descriptor = -1
    with pytest.raises(DiskError, match="open"):
        FileSystemSync(tmp_path / "not there")
