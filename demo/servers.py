"""NameServer and broker in a process of their own."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rocketpipe.errors import RocketPipeError

LOG_NAME = "servers.log"
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 20


class ServersFailed(RocketPipeError):
    """The servers did not start, or stopped on their own; their log says why."""


@contextmanager
def serving(scratch: Path) -> Iterator[str]:
    """Run the servers for the length of the block; gives the NameServer's address.

    They keep data and log in ``scratch``.

    Raises:
        ServersFailed: If they do not start.
    """
    command = [sys.executable, "-m", "rocketpipe.cli.main", "serve"]
    command += ["--data", str(scratch / "store")]
    command += ["--namesrv", "127.0.0.1:0", "--broker", "127.0.0.1:0"]
    with (scratch / LOG_NAME).open("ab") as log:
        child = subprocess.Popen(
            command,
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,  # Ctrl-C is for us alone: we stop them when we are done
        )
    with child:
        try:
            addresses = _addresses(child)
            print(
                f"• servers run in process {child.pid}: NameServer {addresses['namesrv']}, "
                f"broker {addresses['broker']}",
                flush=True,
            )
            yield addresses["namesrv"]
        finally:
            _stop(child)


def _addresses(child: subprocess.Popen[str]) -> dict[str, str]:
    assert child.stdout is not None
    readable, _, _ = select.select([child.stdout], [], [], START_TIMEOUT_S)
    ready = child.stdout.readline() if readable else ""
    if not ready.startswith("ready "):
        raise ServersFailed("the servers did not start")
    return dict(word.split("=", 1) for word in ready.split()[1:])


def _stop(child: subprocess.Popen[str]) -> None:
    child.terminate()
    try:
        child.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
