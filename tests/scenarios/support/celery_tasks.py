"""What the workers of tests run: ``celery -A tests.scenarios.support.celery_tasks worker``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery, Task

import rocketpipe.integrations.kombu  # noqa: F401 - so that Kombu knows the scheme

SCRATCH = Path(os.environ.get("CELERY_SCRATCH", "."))

app = Celery(
    "tests",
    broker=os.environ.get("CELERY_BROKER", "rocketpipe://"),
    backend=os.environ.get("CELERY_BACKEND", "rpc://"),
)
app.conf.broker_transport_options = {
    "visibility_timeout": float(os.environ.get("CELERY_VISIBILITY", "60"))
}
app.conf.broker_connection_retry_on_startup = True
app.conf.worker_cancel_long_running_tasks_on_connection_loss = False
app.conf.beat_schedule = {"often": {"task": f"{__name__}.note", "schedule": 1.0, "args": ("beat",)}}


@app.task
def add(one: int, other: int) -> int:
    return one + other


@app.task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task
def moment() -> float:
    return time.time()


@app.task
def note(line: str) -> None:
    """Leave a line behind, whole, whatever happens afterwards."""
    with (SCRATCH / "notes").open("a") as notes:
        notes.write(f"{line}\n")


@app.task(bind=True, acks_late=True)
def ran(self: Task[Any, Any], number: int, due_s: float | None = None) -> None:
    """Leave behind that a task ran, and by how much too early."""
    early_s = 0.0 if due_s is None else max(0.0, due_s - time.time())
    note(f"{number} {early_s:.6f}")


@app.task
def spread(count: int) -> list[int]:
    """Send from inside of a task: in a forked child, with a client of its own."""
    return [add.delay(number, number).id is not None for number in range(count)]
