"""Who holds the other end of a connection."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable

import pytest

from rocketpipe.cli.cluster import peers

Find = Callable[[int, int, Iterable[int]], int | None]

CONNECT = (
    "import socket, sys; made = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); "
    "sys.stdin.read()"
)


@pytest.mark.parametrize(
    "find",
    [
        pytest.param(peers.process_at, id="as it is"),
        pytest.param(
            peers._asked,
            id="by lsof",
            marks=pytest.mark.skipif(shutil.which("lsof") is None, reason="no lsof here"),
        ),
    ],
)
def test_a_connection_is_somebodys(find: Find) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        subprocess.Popen(
            [sys.executable, "-c", CONNECT, str(listening.getsockname()[1])], stdin=subprocess.PIPE
        ) as other,
    ):
        accepted, (_, port) = listening.accept()
        target = listening.getsockname()[1]
        with accepted:
            assert find(port, target, [os.getpid(), other.pid]) == other.pid
            # We hold the end that was accepted, and that is not the one that is asked for.
            assert find(port, target, [os.getpid()]) is None
            assert find(target, target, [os.getpid(), other.pid]) is None
            other.kill()
            other.wait()
        assert find(port, target, [other.pid]) is None
