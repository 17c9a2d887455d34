"""Clusters that run in processes of their own, as users start them."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from rocketpipe.coordination.zookeeper_server import ZooKeeperNotFound, find_jars
from rocketpipe.pipeline.java import JavaNotFound, java_program


class Up:
    """`rocketpipe cluster up`, and what it says."""

    def __init__(self, directory: Path, *flags: str) -> None:
        self.directory = directory
        command = [sys.executable, "-m", "rocketpipe.cli.main", "cluster", "up"]
        self.process = subprocess.Popen(
            [*command, "--data", str(directory), "-o", "json", *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def until(self, what: str, name: str | None = None) -> dict[str, Any]:
        """Wait for an event, and give it."""
        while (line := self._lines.get(timeout=PATIENCE_S)) is not None:
            event: dict[str, Any] = json.loads(line)
            if event["event"] == what and name in (None, event["name"]):
                return event
        raise AssertionError(f"it ended without {what!r}")

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


@contextmanager
def cluster_up(directory: Path, *flags: str) -> Iterator[Up]:
    """Run a cluster for the length of the block, and end it without a trace."""
    up = Up(directory, *flags)
    try:
        yield up
    finally:
        up.process.terminate()
        try:
            up.process.wait(PATIENCE_S)
        finally:
            up.process.kill()
            up.process.wait()
            assert up.process.stdout is not None
            up.process.stdout.close()


def require_zookeeper() -> None:
    """Skip where no leader can be elected, and say what is missing."""
    pytest.importorskip("kazoo")
    try:
        find_jars()
        java_program({}, "ZooKeeper")
    except (ZooKeeperNotFound, JavaNotFound) as missing:
        pytest.skip(str(missing))


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{process}/stat")
    return not stat.exists() or b") Z " not in stat.read_bytes()


def wait_for_end(processes: Iterable[int]) -> None:
    left = set(processes)
    wait_until(lambda: not any(map(is_alive, left)))


def wait_until(holds: Callable[[], object]) -> None:
    """As `tests.waiting.until`, where no loop runs."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)
