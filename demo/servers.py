"""NameServer and broker as a child process that can be killed, and started again where it was."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from rocketpipe.testing import ServersFailed

LOG_NAME: Final = "servers.log"
READY_NAME: Final = "servers.ready"
START_TIMEOUT_S: Final = 60
STOP_TIMEOUT_S: Final = 30
LOOK_AGAIN_S: Final = 0.05
STARTS: Final = 3
#: Below the ports that systems give to outgoing connections: while the servers are down, nobody who
#: looks for them can get their ports by chance.
PORTS: Final = (20_000, 30_000)


class Servers:
    """``rocketpipe serve`` with its data in ``place / "store"``; its addresses stay the same."""

    def __init__(self, place: Path, chance: random.Random | None = None) -> None:
        self._place = place
        self._ready = place / READY_NAME
        self.store = place / "store"
        self.name_server = self.broker = ""
        self._chance = chance or random.Random()
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the process that serves, or that served last."""
        assert self._child is not None, "the servers were never started"
        return self._child.pid

    async def start(self) -> None:
        """Start them, on the ports they had before if there was a before.

        Raises:
            ServersFailed: If they do not start; their log says why.
        """
        for left in reversed(range(STARTS)):
            if not self.broker:
                self.name_server, self.broker = free_addresses(2, self._chance)
            self._child = child = self._spawn()
            deadline = time.monotonic() + START_TIMEOUT_S
            while child.poll() is None and time.monotonic() < deadline:
                if self._is_ready():
                    return
                await asyncio.sleep(LOOK_AGAIN_S)
            self.stop()
            if not left:
                raise ServersFailed(f"the servers did not start: see {self._place / LOG_NAME}")

    async def kill(self) -> None:
        """End the process at once, as a power cut would: it has no say in it."""
        assert self._child is not None, "the servers were never started"
        self._child.send_signal(signal.SIGKILL)
        await asyncio.to_thread(self._child.wait)

    def stop(self) -> None:
        """Have them stop in good order, if they run."""
        child = self._child
        if child is None or child.poll() is not None:
            return
        child.terminate()
        try:
            child.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _spawn(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "rocketpipe.cli.main", "serve", "--small-files"]
        command += ["--data", str(self.store)]
        command += ["--namesrv", self.name_server, "--broker", self.broker]
        with self._ready.open("wb") as out, (self._place / LOG_NAME).open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self._place,
                stdin=subprocess.DEVNULL,
                stdout=out,  # a file: with --keep they outlive who would read a pipe
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us alone: we stop them when we are done
            )

    def _is_ready(self) -> bool:
        return any(line.startswith("ready ") for line in self._ready.read_text().splitlines())


def free_addresses(count: int, chance: random.Random) -> list[str]:
    """So many different loopback addresses on which nobody listens now.

    Raises:
        ServersFailed: If none is found.
    """
    found: list[str] = []
    for port in chance.sample(range(*PORTS), k=200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(f"127.0.0.1:{port}")
        if len(found) == count:
            return found
    raise ServersFailed(f"no free port from {PORTS[0]} to {PORTS[1]}")
