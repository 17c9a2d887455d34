"""Flower, as a process of its own, sees Celery's workers and tasks through our transport."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from tests.compat.clients.installing import pinned_packages
from tests.scenarios.support import celery_tasks
from tests.waiting import PATIENCE_S

from rocketpipe.testing import serving

pytestmark = pytest.mark.compat

ROOT = Path(__file__).parents[2]
WORKER = "w1@here"


@contextmanager
def running(
    scratch: Path, name: str, *words: str, **told: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A command of Celery's."""
    with (scratch / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", celery_tasks.__name__, *words],
            cwd=ROOT,
            env={**os.environ, **told},
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Flower:
    """What its HTTP interface says."""

    def __init__(self, scratch: Path, process: subprocess.Popen[bytes], port: int) -> None:
        self._log, self._process = scratch / "flower.log", process
        self._front = f"http://127.0.0.1:{port}/api"

    def ask(self, path: str, data: object = None) -> Any:
        """Its answer; None if it has none yet."""
        body = None if data is None else json.dumps(data).encode()
        try:
            with urllib.request.urlopen(f"{self._front}{path}", body, timeout=PATIENCE_S) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return None
        except OSError:
            return None

    def until(self, path: str, holds: Callable[[Any], object]) -> Any:
        """Ask until an answer is as it is to be."""
        until_s = time.monotonic() + PATIENCE_S
        while not ((found := self.ask(path)) and holds(found)):
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < until_s, f"{path}: {found} {self._log.read_text()[-3000:]}"
            time.sleep(0.1)
        return found


def free_port() -> int:
    """Flower says nowhere which one it took."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def test_flower_shows_workers_and_tasks_and_tells_workers_what_to_do(tmp_path: Path) -> None:
    packages = pinned_packages("flower", "flower")
    with serving(tmp_path) as servers:
        told = {
            "CELERY_BROKER": f"rocketpipe://{servers.name_server}//",
            "CELERY_BACKEND": "disabled://",
            "CELERY_SCRATCH": str(tmp_path),
            "PYTHONPATH": f"{ROOT}{os.pathsep}{packages}",
            "FLOWER_UNAUTHENTICATED_API": "true",
        }
        port = free_port()
        work = ("worker", "-n", WORKER, "-P", "threads", "-c", "2", "-E", "-l", "info")
        with (
            running(tmp_path, "worker", *work, **told) as worker,
            running(
                *(tmp_path, "flower", "flower", "--address=127.0.0.1", f"--port={port}"), **told
            ) as process,
        ):
            flower = Flower(tmp_path, process, port)
            workers = flower.until("/workers?refresh=1", lambda found: "stats" in found[WORKER])
            (queue,) = workers[WORKER]["active_queues"]
            assert queue["name"] == "celery"
            assert workers[WORKER]["stats"]["broker"]["transport"] == "rocketpipe"

            app = Celery("callers", broker=told["CELERY_BROKER"], backend="disabled://")
            with app:
                sent = app.send_task(f"{celery_tasks.__name__}.add", (2, 3))
                shown = flower.until(
                    f"/task/info/{sent.id}", lambda found: found["state"] == "SUCCESS"
                )
            assert (shown["name"], shown["result"]) == (f"{celery_tasks.__name__}.add", "5")
            assert shown["worker"] == WORKER

            asked = flower.ask(f"/task/async-apply/{celery_tasks.__name__}.note", {"args": ["f"]})
            flower.until(
                f"/task/info/{asked['task-id']}", lambda found: found["state"] == "SUCCESS"
            )
            assert (tmp_path / "notes").read_text() == "f\n"

            assert flower.ask(f"/worker/shutdown/{WORKER}", {})
            assert worker.wait(PATIENCE_S) == 0
