"""How another terminal tells a cluster what to do: a line of JSON each way, on a Unix socket.

    {"verb": "pause", "name": "broker-a-1", "for_ms": 3000}
    {"done": "broker-a-1 is paused for 3.0 s"}       or {"error": "…"}, or {"rows": […]}

Only the user who started the cluster may connect.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from rocketpipe.cli.cluster.layout import FILE_NAME
from rocketpipe.errors import RocketPipeError

SOCKET_NAME: Final = "control.sock"

#: What systems allow the path of a Unix socket to have: 107 bytes on Linux, 103 on macOS.
_MOST_PATH_BYTES: Final = 103
_MOST_LINE_BYTES: Final = 64 << 10
_ASK_TIMEOUT_S: Final = 10
#: Ending everything in order takes as long as the slowest of each kind.
_ANSWER_TIMEOUT_S: Final = 120
_LAST_ANSWER_S: Final = 1

#: Carries out what was asked; gives the answer.
Answer = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]


class NoClusterRuns(RocketPipeError):
    """Nobody supervises a cluster in this directory."""


class ClusterRefused(RocketPipeError):
    """The cluster does not do this; the message says why."""


@asynccontextmanager
async def listening(directory: Path, answer: Answer) -> AsyncIterator[None]:
    """Answer other terminals for the length of the block.

    Raises:
        OSError: If the socket cannot be made.
    """
    path = directory / SOCKET_NAME
    path.unlink(missing_ok=True)
    shorter: Path | None = None
    bound = path
    if len(os.fsencode(path)) > _MOST_PATH_BYTES:
        shorter = Path(tempfile.mkdtemp(prefix="rocketpipe-"))  # for this user alone
        bound = shorter / SOCKET_NAME
        path.symlink_to(bound)

    answering: set[asyncio.Task[Any]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        answering.add(task)
        task.add_done_callback(answering.discard)
        try:
            await _answered(reader, writer, answer)
        except (ConnectionError, TimeoutError):
            pass  # it went away, or says nothing
        finally:
            writer.close()

    before = os.umask(0o177)
    try:
        server = await asyncio.start_unix_server(connected, bound, limit=_MOST_LINE_BYTES)
    finally:
        os.umask(before)
    try:
        yield
    finally:
        server.close()
        if answering:  # whoever asked for the end of all this is told of it
            await asyncio.wait(answering, timeout=_LAST_ANSWER_S)
        path.unlink(missing_ok=True)
        if shorter is not None:
            shutil.rmtree(shorter, ignore_errors=True)


async def _answered(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer
) -> None:
    async with asyncio.timeout(_ASK_TIMEOUT_S):
        try:
            line = await reader.readline()
        except ValueError:
            line = b""  # longer than any that we send
    try:
        asked = json.loads(line)
        if not isinstance(asked, dict):
            raise ValueError("no object")
    except ValueError:
        told: dict[str, Any] = {"error": "a line of JSON was expected"}
    else:
        try:
            told = await answer(asked)
        except RocketPipeError as error:
            told = {"error": str(error)}
    writer.write(json.dumps(told).encode() + b"\n")
    await writer.drain()


def ask(directory: Path, verb: str, **what: Any) -> dict[str, Any]:
    """Have the cluster in a directory do something, and give its answer.

    Raises:
        NoClusterRuns: If there is none, or it does not run.
        ClusterRefused: If it does not do this.
    """
    path = directory / SOCKET_NAME
    reply = b""
    try:
        target = path.readlink() if path.is_symlink() else path
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_ANSWER_TIMEOUT_S)
            connection.connect(_short(target))
            connection.sendall(json.dumps({"verb": verb, **what}).encode() + b"\n")
            while more := connection.recv(_MOST_LINE_BYTES):
                reply += more
    except TimeoutError:
        raise ClusterRefused(
            f"the cluster in {directory} does not answer: look at the terminal that it runs in"
        ) from None
    except (FileNotFoundError, NotADirectoryError, ConnectionError):
        raise NoClusterRuns(_not_running(directory)) from None
    if not reply:
        raise NoClusterRuns(f"the cluster in {directory} ended before it answered")
    told: dict[str, Any] = json.loads(reply)
    if "error" in told:
        raise ClusterRefused(told["error"])
    return told


def _short(path: Path) -> str:
    """The path as it fits into a socket's address: from here, if the whole one does not."""
    return min(str(path), os.path.relpath(path), key=len)


def _not_running(directory: Path) -> str:
    if (directory / FILE_NAME).exists():
        hint = f"`rocketpipe cluster up --data {directory}` starts it"
        return f"the cluster in {directory} does not run: {hint}"
    hint = "`rocketpipe cluster up --data DIR` makes one; name its directory with --data"
    return f"there is no cluster in {directory}: {hint}"
