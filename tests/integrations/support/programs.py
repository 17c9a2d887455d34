"""Programs that tests start and kill: our servers on ports that they keep, and other people's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.ports import lasting_ports

ROOT = Path(__file__).parents[3]
STOP_S = 60


class KillableServers:
    """``rocketpipe serve`` that comes back where it was."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        first, second = lasting_ports(2)
        self.name_server = f"127.0.0.1:{first}"
        self._broker = f"127.0.0.1:{second}"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        assert self._process is None
        command = [sys.executable, "-m", "rocketpipe.cli.main", "serve", "--small-files"]
        command += ["--data", str(self._scratch / "store")]
        command += ["--namesrv", self.name_server, "--broker", self._broker]
        with (self._scratch / "servers.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._scratch,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("ready "):
                return
        raise AssertionError((self._scratch / "servers.log").read_text()[-2000:])

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None


@contextmanager
def killable_servers(scratch: Path) -> Iterator[KillableServers]:
    servers = KillableServers(scratch)
    servers.start()
    try:
        yield servers
    finally:
        servers.kill()


@contextmanager
def program(
    words: Sequence[str],
    log: Path,
    environment: Mapping[str, str],
    pass_fds: Sequence[int] = (),
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python module, in a session of its own, of which nothing is left after the block."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=pass_fds,
        )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program, by force if it takes too long, and its children with it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            pass
    kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and its children, as the machine's end would."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
