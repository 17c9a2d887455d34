"""The servers that are compared: how each is started, and what it needs before a run."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest
from benchmarks.broker.generator import STREAM_TOPIC, TOPIC, Unavailable, compiled
from benchmarks.broker.kafka import kafka
from benchmarks.broker.packages import find_program
from benchmarks.broker.peer import ROCKETMQ, Durability, Peer, Start, write_topics
from tests.compat.support.apache import NEWEST as APACHE_VERSION
from tests.compat.support.apache import find_apache

TALK_TIMEOUT_S: Final = 10


def rocketpipe(
    name: str = "rocketpipe", what: str = "", *, pure: bool = False, brokers: int = 1
) -> Peer:
    """Ours, with its NameServer in the same process; several brokers are its children."""

    def command(start: Start) -> list[str]:
        # Files of RocketMQ's sizes, as Apache's broker has them; topics come with their first send.
        conf, store = start.directory / "ours.conf", start.directory / "store"
        conf.write_text("autoCreateTopicEnable=true\nautoCreateSubscriptionGroup=true\n")
        if start.topics and not store.exists():
            write_topics(store, start.topics)
        return [
            *(sys.executable, "-m", "rocketpipe.cli.main", "serve", "--profile", "prod"),
            *("-c", str(conf)),
            *("--data", str(store), "--namesrv", "127.0.0.1:0"),
            *("--broker", f"127.0.0.1:{start.port}", "--flush", "sync" if start.sync else "async"),
            *("--brokers", str(brokers)),
        ]

    return Peer(
        name=name,
        title=f"RocketPipe {version('rocketpipe')}{what}",
        durability=Durability("once the system has it; synced every 200 ms or 4 MB", "fdatasync"),
        protocols=ROCKETMQ,
        command=command,
        environment={**os.environ, "ROCKETPIPE_PURE": "1" if pure else "0"},
        one_core=brokers == 1,
        brokers=brokers,
    )


def pure() -> Peer:
    """Ours without its compiled functions."""
    return rocketpipe("rocketpipe-pure", ", nothing compiled", pure=True)


def two_brokers() -> Peer:
    """Ours with two brokers, each in a process and on a core of its own."""
    return rocketpipe("rocketpipe-2", ", two brokers", brokers=2)


def apache() -> Peer:
    """Apache RocketMQ's broker, from Maven's jars, with its defaults and a heap of 1 GiB.

    Raises:
        Unavailable: If there is no Java, or Maven cannot fetch the jars.
    """
    try:
        found = find_apache(APACHE_VERSION)
    except pytest.skip.Exception as error:
        raise Unavailable(str(error)) from error

    def command(start: Start) -> list[str]:
        directory, conf = start.directory, start.directory / "broker.conf"
        if start.topics and not (directory / "store").exists():
            write_topics(directory / "store", start.topics)
        settings = {
            "brokerName": "broker-a",
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
        durability=Durability("once the system has it; synced every 500 ms", "SYNC_FLUSH"),
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
        durability=Durability(
            "append-only file, synced every second; all of it in memory", "appendfsync always"
        ),
        protocols={"send": "xadd", "stream": "xadd"},
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
        durability=Durability("once the system has it; synced every two minutes", None),
        protocols={"send": "jetstream", "stream": "jetstream"},
        command=command,
        environment=program.environment,
        prepare=_fresh_stream,
    )


def limit() -> Peer:
    """A bare loop in C that keeps frames and answers them, with nothing of a broker.

    Raises:
        Unavailable: If it does not compile.
    """
    program = compiled(name="bareloop")

    def command(start: Start) -> list[str]:
        file = start.directory / "frames"
        return [str(program), str(start.port), str(file), "sync" if start.sync else "async"]

    return Peer(
        name="limit",
        title="a bare epoll loop in C",
        durability=Durability("once the system has it; never synced", "fdatasync"),
        protocols={"send": "send", "batch": "batch", "pull": "pull"},
        command=command,
        one_core=True,
    )


PEERS: Final[Mapping[str, Callable[[], Peer]]] = {
    "rocketpipe-pure": pure,
    "rocketpipe": rocketpipe,
    "rocketpipe-2": two_brokers,
    "apache": apache,
    "redis": redis,
    "nats": nats,
    "kafka": kafka,
    "limit": limit,
}


def _version(program: Path, environment: Mapping[str, str], title: str) -> str:
    said = subprocess.run(
        [program, "--version"], env=environment, capture_output=True, text=True, check=False
    ).stdout
    numbers = [word for word in said.replace("=", " ").split() if word.lstrip("v")[:1].isdigit()]
    return f"{title} {numbers[0].lstrip('v')}" if numbers else title


def _fresh_stream(port: int) -> None:
    """Let go of the stream of the run before, if there was one, and make another."""
    config = {"name": "bench", "subjects": [f"{TOPIC}.*", f"{STREAM_TOPIC}.*"], "storage": "file"}
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
