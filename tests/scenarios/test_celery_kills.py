"""Ten thousand tasks of Celery while workers and broker are killed: none lost, none early."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import pytest
from celery import Celery
from kombu.exceptions import OperationalError
from tests.ports import lasting_ports
from tests.scenarios.support import celery_tasks

pytestmark = [pytest.mark.scenario, pytest.mark.soak]

ROOT = Path(__file__).parents[2]
TASKS = int(os.environ.get("ROCKETPIPE_CELERY_TASKS", "10000"))
#: For the last of them to come, however slow the machine.
PATIENCE_S = 1800
#: Every so manieth task is to run later.
LATER_EVERY = 10


class Killed:
    """A program that is started again whenever it was killed."""

    def __init__(self, command: list[str], log: Path, environment: dict[str, str]) -> None:
        self._command, self._log, self._environment = command, log, environment
        self.kills = 0
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                cwd=ROOT,
                env={**os.environ, **self._environment, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, *, again: bool = True) -> None:
        """Kill it with all its children, without a word."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if again:
            self.kills += 1
            self._process = self._start()


@contextmanager
def kept(program: Killed) -> Iterator[Killed]:
    try:
        yield program
    finally:
        program.kill(again=False)


def test_no_task_is_lost_or_early_whoever_is_killed(tmp_path: Path) -> None:
    names, broker = lasting_ports(2)
    url = f"rocketpipe://127.0.0.1:{names}//"
    told = {
        "CELERY_BROKER": url,
        "CELERY_BACKEND": "disabled://",
        "CELERY_SCRATCH": str(tmp_path),
        "CELERY_VISIBILITY": "5",
    }
    serve = [sys.executable, "-m", "rocketpipe.cli.main", "serve", "--data", str(tmp_path / "data")]
    serve += ["--namesrv", f"127.0.0.1:{names}", "--broker", f"127.0.0.1:{broker}"]
    work = [sys.executable, "-m", "celery", "-A", celery_tasks.__name__, "worker", "-c", "2"]
    chance = random.Random(1)
    notes, over = tmp_path / "notes", threading.Event()
    notes.touch()
    app = Celery("callers", broker=url, backend="disabled://")
    with (
        kept(Killed(serve, tmp_path / "serve.log", {})) as served,
        kept(Killed([*work, "-n", "w1@here"], tmp_path / "worker.log", told)) as one,
        kept(Killed([*work, "-n", "w2@here"], tmp_path / "worker.log", told)) as other,
    ):

        def kill_often() -> None:
            for victim in cycle([one, served, other]):
                if over.wait(chance.uniform(5, 12)):
                    return
                victim.kill()

        killing = threading.Thread(target=kill_often)
        killing.start()
        try:
            for number in range(TASKS):
                send(app, number, chance)
            until_s = time.monotonic() + PATIENCE_S
            while len(found := ran(notes)) < TASKS:
                assert time.monotonic() < until_s, f"{TASKS - len(found)} tasks never ran"
                if len(found) > TASKS * 0.98:
                    over.set()  # the last ones are not chased for ever
                time.sleep(0.5)
        finally:
            over.set()
            killing.join()
        app.close()
        kills = {"broker": served.kills, "workers": one.kills + other.kills}
    early = [line for line in notes.read_text().splitlines() if float(line.split()[1]) > 0]
    twice = sum(count - 1 for count in found.values())
    figures = {"tasks": TASKS, "kills": kills, "ran again": twice, "early": len(early)}
    sys.stdout.write(f"{json.dumps(figures)}\n")
    assert set(found) == set(range(TASKS))
    assert early == []
    assert kills["broker"] > 0
    assert kills["workers"] > 0


def send(app: Celery, number: int, chance: random.Random) -> None:
    """Send a task, and again until it is sent."""
    while True:
        later_s = chance.uniform(1, 20) if number % LATER_EVERY == 0 else None
        due_s = None if later_s is None else time.time() + later_s
        try:
            app.send_task(
                f"{celery_tasks.__name__}.ran", (number, due_s), countdown=later_s, expires=None
            )
        except (OperationalError, *app.connection_for_write().connection_errors):
            time.sleep(0.2)
        else:
            return


def ran(notes: Path) -> Counter[int]:
    return Counter(int(line.split()[0]) for line in notes.read_text().splitlines() if line)
