"""What a refusal of the operating system means."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from rocketpipe.store.files.disk_error import DiskError


@pytest.mark.parametrize(
    ("number", "no_room", "passing"),
    [
        (errno.ENOSPC, True, True),
        (errno.EDQUOT, True, True),
        (errno.EMFILE, False, True),
        (errno.ENFILE, False, True),
        (errno.EIO, False, False),
        (errno.EROFS, False, False),
    ],
)
def test_what_may_be_done_later_is_told_from_what_is_broken(
    number: int, no_room: bool, passing: bool
) -> None:
    error = DiskError("open", Path("/f"), OSError(number, os.strerror(number)))
    assert (error.no_room, error.passing) == (no_room, passing)
    assert ("ulimit" in str(error)) == (passing and not no_room)
