"""Real workers of Celery on real servers: every pool, remote control, events, chords, beat."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, chord, group
from tests.scenarios.support import celery_tasks
from tests.waiting import PATIENCE_S, until_there

from rocketpipe.testing import Servers, serving

pytestmark = pytest.mark.scenario

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with serving(tmp_path_factory.mktemp("servers")) as running:
        yield running


@contextmanager
def working(
    servers: Servers, scratch: Path, *flags: str, backend: str = "rpc://"
) -> Iterator[Celery]:
    """A worker in a virtual host of its own, and the application as its callers have it."""
    url = f"rocketpipe://{servers.name_server}/{scratch.name.replace('_', '-')}"
    told = {"CELERY_BROKER": url, "CELERY_BACKEND": backend, "CELERY_SCRATCH": str(scratch)}
    command = [sys.executable, "-m", "celery", "-A", celery_tasks.__name__]
    app = Celery("callers", broker=url, backend=backend)
    with (scratch / "worker.log").open("wb") as log:
        worker = subprocess.Popen(
            [*command, "worker", "-n", "w1@here", "-l", "info", *flags],
            cwd=ROOT,
            env={**os.environ, **told, "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
        )
        try:
            until_there(lambda: app.control.inspect(timeout=1, limit=1).ping() or worker.poll())
            assert worker.poll() is None, (scratch / "worker.log").read_text()
            yield app
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(PATIENCE_S) == 0, (scratch / "worker.log").read_text()
        finally:
            worker.kill()
            worker.wait()
            if backend == "rpc://":
                app.backend.result_consumer.stop()
            app.close()


def call(app: Celery, name: str, *args: Any, **options: Any) -> Any:
    return app.send_task(f"{celery_tasks.__name__}.{name}", args, **options)


def signature(app: Celery, name: str, *args: Any) -> Any:
    return app.signature(f"{celery_tasks.__name__}.{name}", args)


def run_tasks(app: Celery) -> None:
    """Have tasks run at once, from inside of others, and later."""
    results = [call(app, "add", number, number) for number in range(20)]
    assert [each.get(timeout=PATIENCE_S) for each in results] == [2 * n for n in range(20)]
    assert call(app, "spread", 3).get(timeout=PATIENCE_S) == [True] * 3
    before_s = time.time()
    ran_s = call(app, "moment", countdown=1).get(timeout=PATIENCE_S)
    assert ran_s >= before_s + 1


@pytest.mark.parametrize("pool", [pytest.param("solo", marks=pytest.mark.soak), "threads"])
def test_workers_of_one_process_run_tasks(servers: Servers, tmp_path: Path, pool: str) -> None:
    with working(servers, tmp_path, "-P", pool, "-c", "2") as app:
        run_tasks(app)


def test_a_worker_of_several_processes_runs_tasks_and_is_told_and_heard(
    servers: Servers, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    results.mkdir()
    flags = ("-P", "prefork", "-c", "2", "-E", "-B", "-s", str(tmp_path / "schedule"))
    with working(servers, tmp_path, *flags, backend=results.as_uri()) as app:
        run_tasks(app)
        look = app.control.inspect(["w1@here"], timeout=PATIENCE_S)
        assert look.ping() == {"w1@here": {"ok": "pong"}}
        (queue,) = look.active_queues()["w1@here"]
        assert queue["name"] == "celery"
        assert look.stats()["w1@here"]["broker"]["transport"] == "rocketpipe"

        revoked = call(app, "note", "revoked", countdown=1)
        assert app.control.revoke(revoked.id, reply=True, timeout=PATIENCE_S, limit=1)
        heard: list[str] = []

        def hear(event: dict[str, Any]) -> None:
            heard.append(event["type"])
            if {"task-revoked", "task-succeeded", "worker-heartbeat"} <= set(heard):
                receiver.should_stop = True

        with app.connection_for_read() as connection:
            receiver = app.events.Receiver(connection, handlers={"*": hear})
            call(app, "note", "heard")
            receiver.capture(limit=None, timeout=PATIENCE_S, wakeup=False)
        assert {"task-revoked", "task-succeeded", "worker-heartbeat"} <= set(heard)

        numbers = [signature(app, "add", number, 1) for number in range(4)]
        assert sorted(group(numbers, app=app)().get(timeout=PATIENCE_S)) == [1, 2, 3, 4]
        together = chord(numbers, app=app)(signature(app, "total"))
        assert together.get(timeout=PATIENCE_S) == 10

        lines = (tmp_path / "notes").read_text().splitlines
        until_there(lambda: lines().count("beat") >= 2)
        assert "heard" in lines()
        assert "revoked" not in lines()
