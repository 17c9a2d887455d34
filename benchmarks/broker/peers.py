"""The servers that are compared: how each is started, and what it needs before a run."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest
from benchmarks.broker.generator import TOPIC, Unavailable
from benchmarks.broker.packages import find_program
from benchmarks.broker.scenarios import Kind, Scenario
from tests.compat.support.apache import VERSION as APACHE_VERSION
from tests.compat.support.apache import find_apache

#: What the generator calls the requests of RocketMQ.
ROCKETMQ: Final[Mapping[Kind, str]] = {
    kind: kind for kind in ("send", "batch", "pull", "pop", "popbatch")
}
TALK_TIMEOUT_S: Final = 10
PORT_STEP: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A server about to be started: where it keeps its files, where it listens, when it answers."""

    directory: Path
    port: int
    sync: bool


def _nothing(port: int) -> None:
    """Servers that need no fresh stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One kind of server."""

    name: str
    title: str
    #: The generator's name for each kind of request that it serves.
    protocols: Mapping[Kind, str]
    command: Callable[[Start], list[str]]
    environment: Mapping[str, str] | None = None
    #: Whether it can answer once the disk has a message.
    can_sync: bool = True
    #: How many brokers it is, each on a port `PORT_STEP` behind the one before it.
    brokers: int = 1
    #: Whether it does its work on one core, and so is given one.
    one_core: bool = False
    #: How long it is under load before anything is measured; a JVM compiles meanwhile.
    warmup_s: float = 1.0
    #: Lets go of what earlier runs left, so that every run begins alike; given the port.
    prepare: Callable[[int], None] = field(default=_nothing)

    def serves(self, scenario: Scenario) -> bool:
        """Whether there is something to measure."""
        return scenario.kind in self.protocols and (self.can_sync or not scenario.sync)


def rocketpipe(brokers: int = 1) -> Peer:
    """Ours, with its NameServer in the same process; several brokers are its children."""

    def command(start: Start) -> list[str]:
        # Files of RocketMQ's sizes, as Apache's broker has them; topics come with their first send.
        conf = start.directory / "ours.conf"
        conf.write_text("autoCreateTopicEnable=true\nautoCreateSubscriptionGroup=true\n")
        return [
            *(sys.executable, "-m", "rocketpipe.cli.main", "serve", "--profile", "prod"),
            *("-c", str(conf)),
            *("--data", str(start.directory / "store"), "--namesrv", "127.0.0.1:0"),
            *("--broker", f"127.0.0.1:{start.port}", "--flush", "sync" if start.sync else "async"),
            *("--brokers", str(brokers)),
        ]

    title = f"RocketPipe {version('rocketpipe')}"
    return Peer(
        name="rocketpipe" if brokers == 1 else f"rocketpipe-{brokers}",
        title=title if brokers == 1 else f"{title}, {brokers} brokers",
        protocols=ROCKETMQ,
        command=command,
        brokers=brokers,
        one_core=brokers == 1,
    )


def apache() -> Peer:
    """Apache RocketMQ's broker, from Maven's jars, with its defaults and a heap of 1 GiB.

    Raises:
        Unavailable: If there is no Java, or Maven cannot fetch the jars.
    """
    try:
        found = find_apache()
    except pytest.skip.Exception as error:
        raise Unavailable(str(error)) from error

    def command(start: Start) -> list[str]:
        directory, conf = start.directory, start.directory / "broker.conf"
        settings = {
            "brokerIP1": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": start.port,
            "haListenPort": start.port + 1,
            "storePathRootDir": directory / "store",
            "storePathCommitLog": directory / "store" / "commitlog",
            "flushDiskType": "SYNC_FLUSH" if start.sync else "ASYNC_FLUSH",
            # On a busy machine it may be slow, but shall not refuse after 0.2 s in its queue.
            "waitTimeMillsInSendQueue": 10_000,
            "osPageCacheBusyTimeOutMills": 10_000,
            # It refuses to write on a disk that is three quarters full.
            "diskMaxUsedSpaceRatio": 95,
            "diskSpaceCleanForciblyRatio": 98,
            "diskSpaceWarningLevelRatio": 99,
        }
        conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return [
            *(str(found.java), "-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC"),
            *(f"-Duser.home={directory}", f"-Djava.io.tmpdir={directory}"),
            f"-Drocketmq.home.dir={directory}",
            "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
            "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
            *("-cp", f"{found.jars}/*", "org.apache.rocketmq.broker.BrokerStartup"),
            *("-c", str(conf)),
        ]

    return Peer(
        name="apache",
        title=f"Apache RocketMQ {APACHE_VERSION}",
        protocols=ROCKETMQ,
        command=command,
        warmup_s=20.0,
    )


def redis() -> Peer:
    """Redis Streams with an append-only file, synced every second or after every command.

    Raises:
        Unavailable: If it is neither installed nor to be had.
    """
    packages = ["redis-server", "redis-tools", "libjemalloc2", "liblzf1"]
    program = find_program("redis-server", packages)

    def command(start: Start) -> list[str]:
        return [
            *(str(program.path), "--port", str(start.port), "--bind", "127.0.0.1"),
            *("--dir", str(start.directory), "--save", "", "--appendonly", "yes"),
            *("--appendfsync", "always" if start.sync else "everysec"),
            # No run shall pay for the rewriting of what earlier ones wrote.
            *("--auto-aof-rewrite-percentage", "0"),
        ]

    return Peer(
        name="redis",
        title=_version(program.path, program.environment, "Redis Streams"),
        protocols={"send": "xadd"},
        command=command,
        environment=program.environment,
        one_core=True,
        prepare=lambda port: _talk(port, b"FLUSHALL SYNC\r\n", b"+OK\r\n"),
    )


def nats() -> Peer:
    """NATS JetStream with a stream in files; it syncs every two minutes and cannot be told to wait.

    Raises:
        Unavailable: If it is neither installed nor to be had.
    """
    program = find_program("nats-server", ["nats-server"])

    def command(start: Start) -> list[str]:
        conf = start.directory / "nats.conf"
        conf.write_text(
            f'host: "127.0.0.1"\nport: {start.port}\n'
            f'jetstream {{ store_dir: "{start.directory}", max_file_store: 64GB }}\n'
        )
        return [str(program.path), "-c", str(conf)]

    return Peer(
        name="nats",
        title=_version(program.path, program.environment, "NATS JetStream"),
        protocols={"send": "jetstream"},
        command=command,
        environment=program.environment,
        can_sync=False,
        prepare=_fresh_stream,
    )


PEERS: Final[Mapping[str, Callable[[], Peer]]] = {
    "rocketpipe": rocketpipe,
    "rocketpipe-2": partial(rocketpipe, 2),
    "apache": apache,
    "redis": redis,
    "nats": nats,
}


def _version(program: Path, environment: Mapping[str, str], title: str) -> str:
    said = subprocess.run(
        [program, "--version"], env=environment, capture_output=True, text=True, check=False
    ).stdout
    numbers = [word for word in said.replace("=", " ").split() if word.lstrip("v")[:1].isdigit()]
    return f"{title} {numbers[0].lstrip('v')}" if numbers else title


def _fresh_stream(port: int) -> None:
    """Let go of the stream of the run before, if there was one, and make another."""
    config = {"name": "bench", "subjects": [f"{TOPIC}.*"], "storage": "file"}
    for request, body in (("DELETE", b""), ("CREATE", json.dumps(config).encode())):
        head = f"PUB $JS.API.STREAM.{request}.bench answer {len(body)}\r\n".encode()
        opening = b'CONNECT {"verbose":false}\r\nSUB answer 1\r\n'
        # A stream that is not there cannot be deleted: that is an answer too.
        _talk(port, opening + head + body + b"\r\n", b"_response")


def _talk(port: int, request: bytes, until: bytes) -> None:
    """Say something to a server and read until it has answered.

    Raises:
        OSError: If it does not.
    """
    with socket.create_connection(("127.0.0.1", port), TALK_TIMEOUT_S) as connection:
        connection.sendall(request)
        said = b""
        while until not in said:
            more = connection.recv(65536)
            if not more:
                raise ConnectionError(f"the server closed the connection; it said {said!r}")
            said += more
