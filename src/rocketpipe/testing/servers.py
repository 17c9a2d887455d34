"""NameServer and broker in a process of their own."""

from __future__ import annotations

import selectors
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketpipe.errors import RocketPipeError

LOG_NAME: Final = "servers.log"
START_TIMEOUT_S: Final = 60
STOP_TIMEOUT_S: Final = 20


class ServersFailed(RocketPipeError):
    """The servers did not start, or stopped on their own; their log says why."""


@dataclass(frozen=True, slots=True)
class Servers:
    """Where the servers listen, and in which process they run."""

    name_server: str
    #: The first, if there are several.
    broker: str
    process: subprocess.Popen[str]
    #: Where gRPC clients connect, if ``--grpc`` was among the arguments.
    grpc: str | None = None


@contextmanager
def serving(
    scratch: Path, arguments: Sequence[str] = (), *, small_files: bool = True
) -> Iterator[Servers]:
    """Run ``rocketpipe serve``, on free ports, for the length of the block.

    It keeps data and log in ``scratch``, whatever else ``arguments`` say; in ``small_files``, or
    those that it has by itself.

    Raises:
        ServersFailed: If they do not start.
    """
    command = [sys.executable, "-m", "rocketpipe.cli.main", "serve", *arguments]
    command += ["--small-files"] if small_files else []
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
            name_server = addresses.pop("namesrv")
            grpc = addresses.pop("grpc", None)
            yield Servers(name_server, next(iter(addresses.values())), child, grpc)
        finally:
            _stop(child)


def _addresses(child: subprocess.Popen[str]) -> dict[str, str]:
    assert child.stdout is not None
    with selectors.DefaultSelector() as waiting:  # of any number of descriptors
        waiting.register(child.stdout, selectors.EVENT_READ)
        readable = waiting.select(START_TIMEOUT_S)
    ready = child.stdout.readline() if readable else ""
    while ready and not ready.startswith("ready "):
        ready = child.stdout.readline()  # all lines come in one write
    if not ready:
        raise ServersFailed("the servers did not start")
    return dict(word.split("=", 1) for word in ready.split()[1:])


def _stop(child: subprocess.Popen[str]) -> None:
    child.terminate()
    try:
        child.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
