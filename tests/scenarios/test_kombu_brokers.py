"""Kombu on several brokers: one that comes later, stalls, or goes for good."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kombu import Connection, Producer, Queue
from tests.scenarios.test_kombu import consuming, drain, publish
from tests.scenarios.test_kombu_name_servers import Cluster
from tests.waiting import PATIENCE_S

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


def test_a_broker_that_stalls_costs_one_wait_and_not_one_for_each_message(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 1)
    url = f"rocketpipe://{cluster.name_servers[0]}//"
    queue = Queue("tasks")
    try:
        second = cluster.add_broker("broker-b")
        with consuming(url, queue) as (connection, taken, _):
            producer = Producer(connection)
            producer.publish("first", routing_key="tasks")
            drain(connection, lambda: taken.bodies)
            second.send_signal(signal.SIGSTOP)
            until_s = time.monotonic() + PATIENCE_S
            for number in range(20):
                producer.publish(number, routing_key="tasks")
                drain(connection, lambda number=number: number in taken.bodies)
                assert time.monotonic() < until_s, f"{number + 1} of 20 came"
            second.send_signal(signal.SIGCONT)
            for number in range(20, 24):
                producer.publish(number, routing_key="tasks")
            drain(connection, lambda: set(taken.bodies) == {"first", *range(24)})
    finally:
        second.send_signal(signal.SIGCONT)
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
