"""Servers that are started again, where they were, whenever somebody kills them."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Immortal:
    """NameServer and broker in one process, again and again; the NameServer keeps its address."""

    def __init__(self, directory: Path, port: int) -> None:
        self.name_server = f"127.0.0.1:{port}"
        #: Whom to kill is told here, so that any process can.
        self.pid_file = directory / "servers.pid"
        self.deaths = 0
        self._directory = directory
        self._stopped = threading.Event()
        self._child = self._serve()
        self._watch = threading.Thread(target=self._serve_again, name="servers, again")
        self._watch.start()

    def stop(self) -> None:
        """End it for good."""
        self._stopped.set()
        self._child.kill()
        self._watch.join(60)
        assert not self._watch.is_alive()

    def _serve_again(self) -> None:
        while True:
            self._child.wait()
            assert self._child.stdout is not None
            self._child.stdout.close()
            if self._stopped.is_set():
                return
            self.deaths += 1
            self._child = self._serve()
            if self._stopped.is_set():
                self._child.kill()

    def _serve(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "rocketpipe.cli.main", "serve", "--small-files"]
        command += ["--data", str(self._directory / "store")]
        command += ["--namesrv", self.name_server, "--broker", "127.0.0.1:0"]
        with (self._directory / "servers.log").open("ab") as log:
            child = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=self._directory
            )
        assert child.stdout is not None
        assert any(line.startswith("ready ") for line in child.stdout), "the servers did not start"
        self.pid_file.write_text(str(child.pid))
        return child


@contextmanager
def immortal(directory: Path, port: int) -> Iterator[Immortal]:
    """Serve for the length of the block, whoever kills the servers in it."""
    servers = Immortal(directory, port)
    try:
        yield servers
    finally:
        servers.stop()
