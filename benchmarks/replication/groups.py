"""Brokers with and without replicas, each replica a process that is measured, killed, started."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.broker.generator import Generator, RunFailed, Unavailable
from benchmarks.broker.running import ServerFailed, free_port, stop

from rocketpipe.errors import RocketPipeError
from rocketpipe.protocol.requests.replication import GetHaStatus, HaStatus
from rocketpipe.remoting.caller import Caller

START_TIMEOUT_S: Final = 90
RETRY_S: Final = 0.05
OURS: Final = (sys.executable, "-m", "rocketpipe.cli.main")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What groups stand on."""

    directory: Path
    name_server: str
    #: Where the coordinator is, "" if there is none.
    zookeeper: str
    generator: Generator


@dataclass(slots=True)
class Replica:
    """One process of a group, which may be ended and started again."""

    port: int
    directory: Path
    command: Sequence[str]
    #: What its environment has beside ours.
    environment: Mapping[str, str] = field(default_factory=dict)
    child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self.child is not None
        return self.child.pid

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "server.log").open("ab") as log:
            self.child = subprocess.Popen(
                self.command,
                cwd=self.directory,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us alone: we stop it when we are done
            )

    def kill(self) -> None:
        """As a power cut of the process."""
        if self.child is not None:
            self.child.kill()
            self.child.wait()

    def stop(self) -> None:
        if self.child is not None:
            stop(self.child)

    def status(self) -> HaStatus | None:
        """How it stands in its group; None if it does not say."""
        return asyncio.run(_status(self.port))


async def _status(port: int) -> HaStatus | None:
    try:
        async with Caller() as caller, asyncio.timeout(2):
            return (await caller.call(f"127.0.0.1:{port}", GetHaStatus())).status
    except (RocketPipeError, OSError, TimeoutError):
        return None


@dataclass(slots=True)
class Group:
    """A group that answers; the leader is the first of its replicas."""

    name: str
    title: str
    replicas: list[Replica]

    @property
    def leader(self) -> Replica:
        return self.replicas[0]

    @property
    def pids(self) -> list[int]:
        return [each.pid for each in self.replicas]

    def find_leader(self, generator: Generator, *, followers: int) -> None:
        """Wait until a first message is stored, and so many followers are in sync.

        Raises:
            ServerFailed: That takes too long.
        """
        until = time.monotonic() + START_TIMEOUT_S
        why: Exception | None = None
        while time.monotonic() < until:
            for each in self.replicas:
                status = each.status() if followers else HaStatus(leads=True)
                if status is None or not status.leads or status.in_sync < followers:
                    continue
                try:
                    generator.send(each.port, "send", 1)
                except RunFailed as error:
                    why = error
                    continue
                self.replicas.remove(each)
                self.replicas.insert(0, each)
                return
            time.sleep(RETRY_S)
        said = "".join(
            (each.directory / "server.log").read_text(errors="replace")[-1000:]
            for each in self.replicas
        )
        raise ServerFailed(f"{self.title} did not start ({why}): {said.strip()}")


def ours(
    ground: Ground, name: str, number: int, *, more: Mapping[str, object], words: Sequence[str]
) -> Replica:
    """A broker of ours about to be started."""
    directory, port = ground.directory / f"{name}-{number}", free_port()
    directory.mkdir(parents=True)
    settings = {
        "brokerName": name,
        "autoCreateTopicEnable": "true",
        "autoCreateSubscriptionGroup": "true",
        **more,
    }
    conf = directory / "ours.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = [
        *(*OURS, "broker", "-n", ground.name_server, "--profile", "prod"),
        *("-c", str(conf), "--data", str(directory / "store"), "--port", str(port), *words),
    ]
    return Replica(port, directory, command)


def master_and_slave(
    ground: Ground, name: str, role: str, more: Mapping[str, object] | None = None
) -> list[Replica]:
    """A master of ours and its slave."""
    more = more or {}
    master = ours(ground, name, 0, more=more, words=["--role", role])
    slave = ours(
        ground,
        name,
        1,
        more={"haMasterAddress": f"127.0.0.1:{master.port + 1}", **more},
        words=["--role", "slave", "--id", "1"],
    )
    return [master, slave]


def elected(ground: Ground, name: str, count: int, *, session_ms: int = 3000) -> list[Replica]:
    """So many replicas of ours, of which one will lead.

    Raises:
        Unavailable: There is no coordinator.
    """
    if not ground.zookeeper:
        raise Unavailable("there is no ZooKeeper: no Java, or no PySpark")
    more = {"zookeeperSessionTimeout": session_ms}
    words = ["--zookeeper", ground.zookeeper]
    return [ours(ground, name, number, more=more, words=words) for number in range(count)]


@contextmanager
def running(name: str, title: str, replicas: list[Replica], ground: Ground) -> Iterator[Group]:
    """Run a group for the length of the block.

    Raises:
        ServerFailed: If it does not start.
    """
    group = Group(name, title, replicas)
    with ExitStack() as stack:
        for each in list(replicas):
            stack.callback(each.stop)
            each.start()
        group.find_leader(ground.generator, followers=len(replicas) - 1)
        yield group


@contextmanager
def name_server(directory: Path) -> Iterator[str]:
    """One NameServer for all of them; gives its address.

    Raises:
        ServerFailed: If it does not start.
    """
    port = free_port()
    command = [*OURS, "namesrv", "--bind", "127.0.0.1", "--port", str(port), "--profile", "dev"]
    one = Replica(port, directory / "namesrv", command)
    try:
        one.start()
        yield f"127.0.0.1:{port}"
    finally:
        one.stop()
