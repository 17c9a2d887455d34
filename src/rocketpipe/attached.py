"""Becomes another program that ends with whoever started it, even if that is killed.

    python -I -S attached.py PARENT PIPE COMMAND …

Linux is asked to kill the program when its parent dies. Elsewhere a small process stays beside it,
which holds the reading end of a pipe: the parent has the only writing end, so that it reads the end
of the file when the parent is gone. In both cases the process keeps its id.

It stands alone, and imports nothing of the package: it is run before each child.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys

_PR_SET_PDEATHSIG = 1
#: How often the small process looks whether its neighbour is still there.
_LOOK_EVERY_S = 1


def main(arguments: list[str]) -> None:
    """Arrange for the end, then become the command."""
    parent, pipe, command = int(arguments[0]), int(arguments[1]), arguments[2:]
    if not dies_with_parent():
        _leave_a_watcher(pipe)
    if os.getppid() != parent:
        sys.exit(1)  # it died meanwhile
    os.set_inheritable(pipe, False)
    os.execv(command[0], command)  # noqa: S606 - our own servers, without a shell


def dies_with_parent() -> bool:
    """Ask the system to kill this process with its parent; says whether it will."""
    if not sys.platform.startswith("linux"):
        return False
    # Not a signal that could wait: one that is stopped hears no other.
    return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) == 0)


def _leave_a_watcher(pipe: int) -> None:
    process = os.getpid()
    if os.fork():
        return
    os.setsid()
    for descriptor in range(3):
        os.close(descriptor)
    while os.getppid() == process:
        if select.select([pipe], [], [], _LOOK_EVERY_S)[0]:
            if os.getppid() == process:
                os.kill(process, signal.SIGKILL)
            break
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
