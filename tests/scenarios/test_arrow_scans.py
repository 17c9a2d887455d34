"""Topics as Arrow from replicas of which one hangs, brokers that are killed, and guarded ones."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import duckdb
import pytest
from tests.broker.support.elected_group import elected_group
from tests.waiting import until

from rocketpipe import Admin, Message, Producer
from rocketpipe.arrow import TopicScan, scan
from rocketpipe.blocking import Admin as BlockingAdmin
from rocketpipe.blocking import Producer as BlockingProducer
from rocketpipe.blocking import Session
from rocketpipe.errors import AccessDenied, ConnectionLost, RocketPipeError
from rocketpipe.remoting.tls_settings import TlsSettings
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
def served(data: Path, ports: tuple[int, int], *arguments: str) -> Iterator[Popen[str]]:
    """Serve at these ports for the length of the block; at its end it is killed."""
    name_server, broker = (f"127.0.0.1:{port}" for port in ports)
    command = [sys.executable, "-m", "rocketpipe.cli.main", "serve", "--small-files", *arguments]
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


def test_who_may_not_read_a_topic_is_told_and_so_is_who_may_no_more(tmp_path: Path) -> None:
    ports = two_ports()
    data, name_server = tmp_path / "data", f"127.0.0.1:{ports[0]}"
    secret = tmp_path / "ann.key"
    secret.write_text("the-secret-of-ann\n")
    with served(data, ports, "--secure"):
        tls = TlsSettings(ca_file=data / "secure" / "ca.pem")
        with (
            Session(
                name_server,
                tls=tls,
                access_key="admin",
                secret_key_file=data / "secure" / "admin.key",
            ) as session,
            BlockingAdmin(session) as admin,
            BlockingProducer(session) as producer,
        ):
            admin.topics.create("orders", queues=1)
            for body in BODIES:
                producer.send("orders", body)
            admin.users.create("ann", secret="the-secret-of-ann")

            def look(**given: Any) -> TopicScan:
                told = {"access_key": "ann", "secret_key_file": secret, "tls": tls} | given
                return scan("orders", name_servers=name_server, **told)

            with pytest.raises(ConnectionLost, match="it may want TLS"):
                look(tls=False)
            with pytest.raises(AccessDenied, match=r"User:ann is not let in"):
                look(secret_key_file=None, secret_key="another-secret-of-ann")
            with pytest.raises(AccessDenied, match=r"User:ann .* Topic:orders"):
                look()
            admin.policies.grant("ann", ["Topic:orders"], ["Sub"])
            found = look()
            assert found.count() == len(BODIES)
            with pytest.raises(AccessDenied, match=r"User:ann .* Group:TOOLS_CONSUMER"):
                found.to_table()
            admin.policies.grant("ann", ["Group:TOOLS_CONSUMER"], ["Sub"])
            assert found.to_table()["body"].to_pylist() == BODIES
            admin.policies.revoke("ann")
            for ask in (found.to_table, found.to_polars, found.refreshed):
                with pytest.raises(AccessDenied, match="User:ann"):
                    ask()
            with pytest.raises(duckdb.Error, match="User:ann has no permission"):
                duckdb.sql("SELECT body FROM found").fetchall()
