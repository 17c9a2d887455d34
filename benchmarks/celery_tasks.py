"""What the workers of ``benchmarks.celery`` run."""

from __future__ import annotations

import json
import os
import time

from celery import Celery

import rocketpipe.integrations.kombu  # noqa: F401 - so that Kombu knows the scheme

app = Celery("benchmarks", broker=os.environ["BENCH_BROKER"], backend="disabled://")
app.conf.broker_transport_options = json.loads(os.environ.get("BENCH_OPTIONS", "{}"))
app.conf.task_ignore_result = True
app.conf.broker_connection_retry_on_startup = True
app.conf.worker_hijack_root_logger = False

_NOTES = os.open(os.environ["BENCH_NOTES"], os.O_CREAT | os.O_APPEND | os.O_WRONLY)


@app.task
def note(sent_s: float) -> None:
    """Leave behind when a task was sent and when it ran."""
    os.write(_NOTES, b"%.6f %.6f\n" % (sent_s, time.time()))
