"""The transport of Kombu's, and a worker of Celery's, on Apache's own NameServer and broker."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from celery import Celery
from kombu import Connection, Consumer, Exchange, Producer, Queue
from tests.compat.support.apache import NEWEST, find_apache
from tests.scenarios.support import celery_tasks
from tests.scenarios.test_kombu import Taken, consuming, drain, nothing_comes, publish
from tests.waiting import PATIENCE_S, until_there

pytestmark = pytest.mark.compat

ROOT = Path(__file__).parents[2]


async def test_kombu_and_celery_on_apaches_own_servers(tmp_path: Path) -> None:
    apache = find_apache(NEWEST)
    async with apache.cluster(tmp_path) as cluster:
        url = f"rocketpipe://{cluster.name_servers}/{{}}"
        for check in (queues, delays, fanout, bindings, renewal):
            await asyncio.to_thread(check, url.format(check.__name__))
        await asyncio.to_thread(worker, url.format("worker"), tmp_path)


def queues(url: str) -> None:
    """Sent, received, acknowledged, rejected, given back, purged, deleted."""
    queue = Queue("tasks", max_priority=9)
    publish(url, *range(20), routing_key="tasks", declare=[queue])
    with consuming(url, queue, prefetch_count=5) as (connection, taken, _):
        drain(connection, lambda: len(taken.bodies) == 20)
    assert sorted(taken.bodies) == list(range(20))
    publish(url, "again", routing_key="tasks", priority=6)
    with consuming(url, queue, acks=False) as (connection, taken, _):
        drain(connection, lambda: taken.bodies)
        taken.messages[0].reject(requeue=True)
        drain(connection, lambda: len(taken.bodies) == 2)
        assert taken.messages[1].delivery_info["redelivered"]
    with consuming(url, queue) as (connection, taken, _):  # which the last one had in hand
        drain(connection, lambda: taken.bodies == ["again"])
        nothing_comes(connection)
    with Connection(url) as connection:
        bound = queue(connection.default_channel)
        publish(url, 1, 2, routing_key="tasks")
        assert bound.purge() == 2
        bound.delete()


def delays(url: str) -> None:
    """What is due later comes then, and not before."""
    queue = Queue("later")
    due = datetime.now(UTC) + timedelta(seconds=3)
    publish(url, "x", routing_key="later", declare=[queue], headers={"eta": due.isoformat()})
    with consuming(url, queue) as (connection, taken, _):
        drain(connection, lambda: taken.bodies)
    assert datetime.now(UTC) >= due


def fanout(url: str) -> None:
    """Every process hears it."""
    control = Exchange("control", "fanout", durable=False)
    boxes = [Queue(f"box{n}", control, exclusive=True, auto_delete=True) for n in range(2)]
    with (
        consuming(url, boxes[0], no_ack=True, acks=False) as (one, first, _),
        consuming(f"{url}?", boxes[1], no_ack=True, acks=False) as (other, second, _),
    ):
        publish(url, "hear", exchange=control)
        drain(one, lambda: first.bodies)
        drain(other, lambda: second.bodies)


def bindings(url: str) -> None:
    """Seen by a process that did not make them."""
    news = Exchange("news", "topic")
    with Connection(url) as connection:
        Queue("sport", news, routing_key="news.sport.#")(connection.default_channel).declare()
    with Connection(url, transport_options={"visibility_timeout": 61}) as other:
        Producer(other).publish("goal", exchange="news", routing_key="news.sport.soccer")
    with Connection(url) as connection:
        taken = Taken()
        with Consumer(connection, [Queue("sport")], callbacks=[taken]):
            drain(connection, lambda: taken.bodies == ["goal"])


def renewal(url: str) -> None:
    """Work that takes longer than the invisible time is given once."""
    queue, quick = Queue("long"), {"visibility_timeout": 3}
    publish(url, "work", routing_key="long", declare=[queue])
    with consuming(url, queue, acks=False, transport_options=quick) as (one, taken, _):
        drain(one, lambda: taken.bodies)
        with consuming(url, queue, transport_options=quick) as (other, others, _):
            until_s = time.monotonic() + 7
            drain(other, lambda: time.monotonic() > until_s)
        assert (taken.bodies, others.bodies) == (["work"], [])
        taken.messages[0].ack()


def worker(url: str, scratch: Path) -> None:
    """A worker of Celery's: tasks, a countdown, results, and remote control."""
    told = {"CELERY_BROKER": url, "CELERY_SCRATCH": str(scratch), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "celery", "-A", celery_tasks.__name__, "worker"]
    app = Celery("callers", broker=url, backend="rpc://")
    with (scratch / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "-n", "w1@here", "-P", "prefork", "-c", "2"],
            cwd=ROOT,
            env={**os.environ, **told},
            stdout=log,
            stderr=log,
        )
    try:
        until_there(lambda: app.control.inspect(timeout=1, limit=1).ping() or process.poll())
        assert process.poll() is None, (scratch / "worker.log").read_text()
        front = celery_tasks.__name__
        results = [app.send_task(f"{front}.add", (number, 1)) for number in range(20)]
        assert [each.get(timeout=PATIENCE_S) for each in results] == list(range(1, 21))
        before_s = time.time()
        assert app.send_task(f"{front}.moment", countdown=2).get(timeout=PATIENCE_S) >= before_s + 2
    finally:
        process.kill()
        process.wait()
        app.backend.result_consumer.stop()
        app.close()
