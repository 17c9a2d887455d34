"""Which of some processes holds the other end of a connection on this machine.

Replicas connect to their leader through one relay, each from a port that the system chose. To cut
one of them off, the relay has to know which of them it is.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

_SOCKETS: Final = Path("/proc/net/tcp")
#: Of its columns: the two addresses, and the number of the socket.
_LOCAL: Final = 1
_REMOTE: Final = 2
_NUMBER: Final = 9


def process_at(port: int, connected_to: int, processes: Iterable[int]) -> int | None:
    """Which process has the connection from ``port`` to the port ``connected_to``.

    None if it is none of those given, or has ended.
    """
    if not _SOCKETS.exists():
        return _asked(port, connected_to, processes)
    wanted = {f"socket:[{number}]" for number in _sockets(port, connected_to)}
    for process in processes if wanted else ():
        if any(target in wanted for target in _open_files(process)):
            return process
    return None


def _sockets(port: int, connected_to: int) -> Iterator[str]:
    local, remote = f":{port:04X}", f":{connected_to:04X}"
    with _SOCKETS.open() as table:
        for line in table:
            words = line.split()
            if words[_LOCAL].endswith(local) and words[_REMOTE].endswith(remote):
                yield words[_NUMBER]


def _open_files(process: int) -> Iterator[str]:
    directory = f"/proc/{process}/fd"
    try:
        names = os.listdir(directory)  # noqa: PTH208 - of thousands, without a Path for each
    except OSError:
        return
    for name in names:
        try:
            yield os.readlink(f"{directory}/{name}")  # noqa: PTH115 - the same
        except OSError:
            continue


def _asked(port: int, connected_to: int, processes: Iterable[int]) -> int | None:
    """The same by ``lsof``, which macOS has."""
    known = set(processes)
    try:
        answer = subprocess.run(  # noqa: S603 - no shell, and numbers
            ["/usr/bin/env", "lsof", "-nP", f"-iTCP:{port}", "-sTCP:ESTABLISHED", "-Fpn"],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    process = None
    for line in answer.stdout.splitlines():
        if line.startswith("p"):
            process = int(line[1:])
        elif process in known and line.endswith(f":{connected_to}") and f":{port}->" in line:
            return process
    return None
