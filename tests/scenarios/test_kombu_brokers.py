"""Kombu on several brokers: one that comes later, stalls, or goes for good."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from kombu import Connection, Queue
from tests.scenarios.test_kombu import consuming, drain, publish
from tests.scenarios.test_kombu_name_servers import Cluster

from rocketpipe import PartlyDone

pytestmark = [pytest.mark.scenario, pytest.mark.soak]

COUNT = 6


def used(url: str, name: str) -> None:
    """Declare a queue, send to it, and receive all that was sent."""
    queue = Queue(name)
    publish(url, *range(COUNT), routing_key=name, declare=[queue])
    with consuming(url, queue) as (connection, taken, _):
        drain(connection, lambda: set(taken.bodies) == set(range(COUNT)))


def test_queues_are_used_with_the_brokers_that_are_there(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 1)
    url = f"rocketpipe://{cluster.name_servers[0]}//"
    try:
        used(url, "first")
        second = cluster.add_broker("broker-b")
        for name in ("first", "second"):
            used(url, name)
        look_at_a_stall(url, second)
        second.kill()
        second.wait()
        for name in ("first", "second", "third", "fourth"):
            used(url, name)
        cluster.empty(cluster.name_servers[0])
        for name in ("second", "fifth"):
            used(url, name)
    finally:
        cluster.close()


def look_at_a_stall(url: str, broker: subprocess.Popen[str]) -> None:
    """A broker that is known and does not answer keeps nobody from the other."""
    with Connection(url) as connection:
        broker.send_signal(signal.SIGSTOP)
        try:
            for name in ("second", "third"):
                used(url, name)
            bound = Queue("second")(connection.default_channel)
            assert bound.queue_declare(passive=True).message_count == 0
            refuses(lambda: bound.delete())
        finally:
            broker.send_signal(signal.SIGCONT)
        bound.delete()
        used(url, "second")


def refuses(delete: Callable[[], object]) -> None:
    """What is in a queue at a broker that does not answer cannot be deleted."""
    with pytest.raises(PartlyDone, match="not at broker-b"):
        delete()
