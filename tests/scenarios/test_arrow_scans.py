"""Topics as Arrow from replicas of which one hangs, and from brokers that are killed meanwhile."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from tests.broker.support.elected_group import elected_group
from tests.waiting import until

from rocketpipe import Admin, Message, Producer
from rocketpipe.arrow import scan
from rocketpipe.blocking import Admin as BlockingAdmin
from rocketpipe.blocking import Producer as BlockingProducer
from rocketpipe.errors import RocketPipeError
from rocketpipe.store.replica import Replica

pytestmark = pytest.mark.scenario
BODIES = [b"%d" % number for number in range(20)]


async def test_what_a_follower_has_not_taken_in_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the leader's log, and the follower still counts as one that keeps up."""
    async with elected_group(tmp_path) as group:
        for number in (1, 2):
            await group.replica(number, max_lag_ms=600_000)
        await group.in_sync(1, 2)
        leader = await group.leader()
        stores = {number: group.replicas[number].core.store for number in (1, 2)}
        positions = stores[leader].positions
        async with (
            Admin(group.name_server) as admin,
            Producer(group.name_server, timeout_ms=1000) as producer,
        ):
            await admin.topics.create("orders", queues=1)
            for body in BODIES:
                await producer.send(Message(topic="orders", body=body))
            await until(lambda: positions.dispatched == positions.written)
            monkeypatch.setattr(Replica, "take_in", lambda *_: None)
            with pytest.raises(RocketPipeError):
                await producer.send(Message(topic="orders", body=b"not confirmed"))
        assert positions.written > positions.confirmed
        through = await asyncio.to_thread(scan, "orders", name_servers=group.name_server)
        assert through.count() == len(BODIES)
        assert (await asyncio.to_thread(through.to_table))["body"].to_pylist() == BODIES

        def bodies_in(root: Path) -> list[bytes]:
            found: list[bytes] = scan("orders", log=root).to_table()["body"].to_pylist()
            assert found == BODIES[: len(found)]
            return found

        for store in stores.values():
            await until(lambda root=store.config.root: bodies_in(root) == BODIES)
        await group.stop(leader)
        assert bodies_in(stores[leader].config.root) == BODIES


@contextmanager
def served(data: Path, ports: tuple[int, int]) -> Iterator[Popen[str]]:
    """Serve at these ports for the length of the block; at its end it is killed."""
    name_server, broker = (f"127.0.0.1:{port}" for port in ports)
    command = [sys.executable, "-m", "rocketpipe.cli.main", "serve", "--small-files"]
    command += ["--data", str(data), "--namesrv", name_server, "--broker", broker]
    with Popen(command, stdout=PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            while not (line := process.stdout.readline()).startswith("ready"):
                assert line, "it did not start"
            yield process
        finally:
            process.kill()


def two_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def test_a_scan_goes_on_where_it_was_when_its_broker_is_killed_and_started(tmp_path: Path) -> None:
    count, ports = 3000, two_ports()
    name_server = f"127.0.0.1:{ports[0]}"
    with served(tmp_path / "data", ports):
        with BlockingAdmin(name_server) as admin:
            admin.topics.create("orders", queues=2)
        with BlockingProducer(name_server, compress_over=None) as producer:
            for first in range(0, count, 100):
                bodies = [(b"%d " % number).ljust(8000) for number in range(first, first + 100)]
                producer.send_batch([Message(topic="orders", body=body) for body in bodies])
        reader = scan("orders", name_servers=name_server, batch_rows=50).to_reader(["body"])
        found = reader.read_next_batch()["body"].to_pylist()
    done = threading.Event()

    def serve_again() -> None:
        with served(tmp_path / "data", ports):
            done.wait()

    again = threading.Thread(target=serve_again)
    again.start()
    try:
        for batch in reader:
            found += batch["body"].to_pylist()
    finally:
        done.set()
        again.join()
    assert sorted(int(body) for body in found) == list(range(count))
