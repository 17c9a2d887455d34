"""Pythons of Spark's that connect back before they import anything."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from rocketpipe.pipeline import launch

#: A worker that takes its time until a file is there, then says what it is told.
SLOW = """
import os, sys, time
while not os.path.exists("go"):
    time.sleep(0.01)
from pyspark.worker_util import get_sock_file_to_executor
if __name__ == "__main__":
    with get_sock_file_to_executor(timeout=None) as file:
        said = file.readline()
        file.write(repr((said, sys.argv[1:], __name__)).encode())
        file.flush()
"""
SECRET = "a secret"


@contextmanager
def worker(place: Path, **told: str) -> Iterator[subprocess.Popen[bytes]]:
    (place / "slow_worker.py").write_text(SLOW)
    program = launch.lean_python(place)
    process = subprocess.Popen(
        [program, "-m", "slow_worker"],
        cwd=place,
        env=os.environ | told,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def taken_in(listener: socket.socket, answer: bytes | None) -> Iterator[IO[bytes]]:
    """What Spark does with who connects."""
    listener.settimeout(60)
    channel, _ = listener.accept()
    channel.settimeout(60)
    with channel, channel.makefile("rwb") as file:
        if answer is not None:
            (length,) = struct.unpack(">i", file.read(4))
            assert file.read(length).decode() == SECRET
            file.write(struct.pack(">i", len(answer)) + answer)
            file.flush()
        yield file


@pytest.mark.parametrize("by", ["port", "path"])
def test_a_worker_connects_before_it_is_ready_and_works_on_that_connection(
    tmp_path: Path, by: str
) -> None:
    family = socket.AF_INET if by == "port" else socket.AF_UNIX
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        if by == "port":
            listener.bind(("127.0.0.1", 0))
            told = {
                "PYTHON_WORKER_FACTORY_PORT": str(listener.getsockname()[1]),
                "PYTHON_WORKER_FACTORY_SECRET": SECRET,
            }
        else:
            listener.bind(str(tmp_path / "socket"))
            told = {"PYTHON_WORKER_FACTORY_SOCK_PATH": str(tmp_path / "socket")}
        listener.listen(1)
        answer = b"ok" if by == "port" else None
        with worker(tmp_path, **told) as process, taken_in(listener, answer) as file:
            (tmp_path / "go").touch()
            assert struct.unpack(">i", file.read(4)) == (process.pid,)
            file.write(b"a task\n")
            file.flush()
            assert file.read() == repr((b"a task\n", [], "__main__")).encode()
            assert process.wait(60) == 0


def test_a_worker_that_is_not_let_in_ends(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        told = {
            "PYTHON_WORKER_FACTORY_PORT": str(listener.getsockname()[1]),
            "PYTHON_WORKER_FACTORY_SECRET": SECRET,
        }
        with worker(tmp_path, **told) as process, taken_in(listener, b"err"):
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 1
            assert b"Spark does not know the secret that it gave" in errors
