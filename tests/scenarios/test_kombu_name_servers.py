"""Kombu on NameServers that are killed, and know nothing when they are back."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.common import Broadcast
from tests.waiting import until_there

from rocketpipe.integrations.kombu.bindings import Binding

pytestmark = pytest.mark.scenario

#: With them a connection has another client, as if it were another process's.
OTHER: dict[str, Any] = {"transport_options": {"visibility_timeout": 61}}
ANOTHER: dict[str, Any] = {"transport_options": {"visibility_timeout": 62}}


class Cluster:
    """NameServers that keep nothing, and a broker; each a process."""

    def __init__(self, scratch: Path, name_servers: int) -> None:
        self._scratch = scratch
        self._processes = ExitStack()
        self._by_address: dict[str, subprocess.Popen[str]] = {}
        for _ in range(name_servers):
            self._name_server("127.0.0.1:0")
        self.broker = self.add_broker("broker-a")

    @property
    def name_servers(self) -> list[str]:
        return list(self._by_address)

    def add_broker(self, name: str) -> subprocess.Popen[str]:
        """Start a broker."""
        process, _ = self._start(
            *("broker", "-n", ";".join(self.name_servers), "--bind", "127.0.0.1", "--port", "0"),
            *("--profile", "dev", "--data", str(self._scratch / name), "--small-files"),
            *("--name", name),
        )
        return process

    def _name_server(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        words = ("namesrv", "--bind", host, "--port", port, "--profile", "dev")
        process, at = self._start(*words)
        self._by_address[at] = process

    def _start(self, *words: str) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-m", "rocketpipe.cli.main", *words]
        with (self._scratch / "log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=self._scratch, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self._processes.enter_context(process)
        self._processes.callback(process.kill)
        assert process.stdout is not None
        ready = next(line for line in process.stdout if line.startswith("ready "))
        return process, ready.split()[1].partition("=")[2]

    def empty(self, address: str) -> None:
        """Kill a NameServer, and have another in its place, which knows nothing."""
        process = self._by_address[address]
        process.kill()
        process.wait()
        self._name_server(address)

    def close(self) -> None:
        self._processes.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("cluster"), 2)
    yield running
    running.close()


@pytest.fixture
def url(cluster: Cluster) -> str:
    return f"rocketpipe://{cluster.name_servers[0]}//"


def bodies(connection: Connection, queue: str, count: int) -> list[Any]:
    """So many messages that wait in a queue."""
    channel, found = connection.default_channel, list[Any]()

    def one() -> bool:
        if message := channel.basic_get(queue, no_ack=True):
            found.append(message.decode())
        return len(found) == count

    until_there(one)
    return found


def test_a_queue_is_there_while_its_broker_has_not_registered_again(
    cluster: Cluster, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketpipe.integrations.kombu.topics.TOPICS_S", 0.0)
    with Connection(url) as connection, Connection(url) as reading:
        producer = Producer(connection)
        producer.publish("before", routing_key="seen", declare=[Queue("seen")])
        link = connection.connection.link
        topics = link.run(link.topics_of("seen"))
        cluster.broker.send_signal(signal.SIGSTOP)  # so that it registers when we say so
        try:
            cluster.empty(cluster.name_servers[0])
            assert link.run(link.topics_of("seen")) == topics
            with pytest.raises(connection.recoverable_connection_errors, match="registered yet"):
                producer.publish("nobody knows", routing_key="never-seen")
        finally:
            cluster.broker.send_signal(signal.SIGCONT)
        producer.publish("after", routing_key="seen", retry=True)
        assert bodies(reading, "seen", 2) == ["before", "after"]
        until_there(lambda: link.run(link.admin.topics.names()))
        producer.publish("nobody has it", routing_key="never-seen", retry=True)
        assert not link.run(link.topics_of("never-seen"))


def test_a_queue_is_gone_when_another_process_has_deleted_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketpipe.integrations.kombu.topics.TOPICS_S", 0.0)
    with Connection(url) as connection, Connection(url, **OTHER) as deleting:
        Producer(connection).publish("x", routing_key="short", declare=[Queue("short")])
        link = connection.connection.link
        assert link.run(link.topics_of("short"))
        assert deleting.connect().link is not link
        Queue("short")(deleting.default_channel).delete()
        assert link.run(link.topics_of("short")) == []


def bindings_of(connection: Connection, exchange: str) -> list[str]:
    return [queue for _, _, queue in connection.default_channel.get_table(exchange)]


def test_bindings_outlast_a_name_server_that_keeps_none(cluster: Cluster, url: str) -> None:
    exchange = Exchange("work", "topic")
    queue = Queue("bound", exchange, "a.*")
    with Connection(url) as binding, Connection(url, **OTHER) as knowing:
        queue(binding.default_channel).declare()
        assert bindings_of(knowing, "work") == ["bound"]
        cluster.empty(cluster.name_servers[0])
        Producer(binding).publish(1, exchange=exchange, routing_key="a.b", retry=True)
        Producer(knowing).publish(2, exchange=exchange, routing_key="a.b", retry=True)
        with Connection(url, **ANOTHER) as new:
            until_there(lambda: bindings_of(new, "work"))
            Producer(new).publish(3, exchange=exchange, routing_key="a.b", retry=True)
            assert bodies(new, "bound", 3) == [1, 2, 3]


def test_what_was_unbound_stays_so_when_name_servers_lose_all(cluster: Cluster, url: str) -> None:
    exchange = Exchange("less", "topic")
    with Connection(url) as binding, Connection(url, **OTHER) as unbinding:
        link = binding.connect().link
        for name in ("kept", "unbound"):
            Queue(name, exchange, "a")(binding.default_channel).declare()
        unbinding.default_channel.queue_unbind("unbound", "less", "a")
        # Neither the one who bound it has looked since, nor is there anything to look at.
        cluster.empty(cluster.name_servers[0])
        assert bindings_of(unbinding, "less") == ["kept"]
        until_there(lambda: len(link.run(link.admin.name_servers.values(link.names.namespace))) > 1)
        until_there(lambda: bindings_of(binding, "less") == ["kept"])
        Queue("unbound", exchange, "a")(binding.default_channel).declare()  # a later word
        assert sorted(bindings_of(unbinding, "less")) == ["kept", "unbound"]


def test_one_of_several_name_servers_is_told_what_it_has_lost(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketpipe.integrations.kombu.bindings.EVERY_S", 0.1)
    one, other = cluster.name_servers
    both = {"transport_options": {"name_servers": f"{one};{other}"}}
    with Connection(f"rocketpipe://{one}//", **both) as connection:
        Queue("two", Exchange("pair"), "a")(connection.default_channel).declare()
        link = connection.connection.link
        namespace, servers = link.names.namespace, link.admin.name_servers
        key = Binding("pair", "direct", "two", "a").key

        def kept(server: str) -> str | None:
            values: dict[str, str] = link.run(servers.values(namespace, server=server))
            return values.get(key)

        before = kept(one)
        assert before
        for emptied in (one, other):
            cluster.empty(emptied)
            assert until_there(partial(kept, emptied)) == before


def test_a_queue_stays_that_others_consume_from_when_leases_are_lost(
    cluster: Cluster, url: str
) -> None:
    queue = Broadcast("all", queue="shared", exchange=Exchange("all", "fanout"))
    with Connection(url) as staying, Consumer(staying, [queue]):
        with Connection(url, **OTHER) as leaving, Consumer(leaving, [queue]):
            cluster.empty(cluster.name_servers[0])
            link = leaving.connection.link
            until_there(lambda: link.run(link.admin.topics.names()))
        queue(staying.default_channel).queue_declare(passive=True)
        link = staying.connection.link
        assert link.run(link.admin.brokers.topics(link.run(link.admin.brokers.answering())[0]))[
            link.names.topic("shared")
        ]
