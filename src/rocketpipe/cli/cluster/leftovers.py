"""Processes of a supervisor that was killed: found by their ids, and ended.

An id alone says little, since systems give ids out again. It counts with the moment at which its
process began.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

FILE_NAME: Final = "running.json"

_PATIENCE_S: Final = 10
_LOOK_EVERY_S: Final = 0.05
#: Of what /proc/PID/stat says behind the program's name: the state, and when the process began.
_STATE: Final = 0
_BEGAN: Final = 19
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


def began(process: int) -> str | None:
    """When a process began, in whatever words the system has for it; None if there is none."""
    try:
        stat = Path(f"/proc/{process}/stat").read_bytes()
    except OSError:
        return None if Path("/proc/self/stat").exists() else _asked(process)
    # The program's name is in parentheses, and may have any character in it.
    words = stat.rpartition(b")")[2].split()
    if words[_STATE] == b"Z":
        return None
    # Counted from the start of the machine, so that counts too.
    return f"{_BOOT.read_text().strip()} {words[_BEGAN].decode()}"


def _asked(process: int) -> str | None:
    try:
        answer = subprocess.run(  # noqa: S603 - no shell, and a number
            ["/bin/ps", "-o", "lstart=", "-p", str(process)],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return answer.stdout.strip() or None


def keep(directory: Path, processes: Mapping[str, int]) -> None:
    """Write down which processes run, by name."""
    rows = {name: [process, began(process)] for name, process in processes.items()}
    unfinished = directory / f"{FILE_NAME}.tmp"
    unfinished.write_bytes(msgspec.json.encode(rows))
    unfinished.replace(directory / FILE_NAME)


def end(directory: Path) -> list[str]:
    """End those that were written down and still run: with SIGTERM, and if need be SIGKILL.

    Gives their names.
    """
    found = _alive(directory)
    for process in found.values():
        _signal(process, signal.SIGTERM)
        _signal(process, signal.SIGCONT)
    deadline = time.monotonic() + _PATIENCE_S
    while (left := _alive(directory)) and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
    for process in left.values():
        _signal(process, signal.SIGKILL)
    deadline = time.monotonic() + _PATIENCE_S
    while _alive(directory) and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
    (directory / FILE_NAME).unlink(missing_ok=True)
    return list(found)


def _alive(directory: Path) -> dict[str, int]:
    try:
        text = (directory / FILE_NAME).read_bytes()
        rows = msgspec.json.decode(text, type=dict[str, tuple[int, str | None]])
    except (OSError, msgspec.MsgspecError):
        return {}
    return {
        name: process
        for name, (process, when) in rows.items()
        if when is not None and began(process) == when
    }


def _signal(process: int, number: int) -> None:
    try:
        os.kill(process, number)
    except (ProcessLookupError, PermissionError):
        pass
