"""A real ZooKeeper on loopback, of one node or three, from jars that are here already.

What it runs from is the business of `rocketpipe.coordination.zookeeper_server`. Each node is a
child that ends when this process does, however that happens.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from rocketpipe.coordination import zookeeper_server
from rocketpipe.coordination.zookeeper_server import Node
from rocketpipe.errors import RocketPipeError
from rocketpipe.pipeline.java import java_program

HOST: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 60
STOP_TIMEOUT_S: Final = 10
#: Starts the rest of its line, says which process that is, and kills it when nobody holds the other
#: end of its standard input any more.
_GUARD: Final = '"$@" </dev/null >&2 & echo $!; read -r _; kill -9 $! 2>/dev/null; wait'


class ZooKeeperFailed(RocketPipeError):
    """A node did not start; its log says why."""


class ZooKeeperNode:
    """One node, as a child process; what it keeps is in its directory, and outlives it."""

    def __init__(self, directory: Path, command: Sequence[str], port: int) -> None:
        self.directory = directory
        self.address = f"{HOST}:{port}"
        self._command = command
        self._port = port
        self._guard: subprocess.Popen[str] | None = None
        self._pid = 0

    def start(self) -> None:
        """Start it; `ready` says when it answers."""
        assert self._guard is None, "it runs"
        with (self.directory / "zookeeper.log").open("ab") as log:
            self._guard = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "sh", *self._command],
                cwd=self.directory,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for us alone: we stop it when we are done
            )
        assert self._guard.stdout is not None
        self._pid = int(self._guard.stdout.readline())

    @property
    def running(self) -> bool:
        if self._guard is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(self._pid, 0)
            return not _zombie(self._pid)
        return False

    @property
    def ready(self) -> bool:
        """Whether it serves; one of three does when it has found another."""
        return zookeeper_server.mode_of(self._port) is not None

    def pause(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    def kill(self) -> None:
        """As a power cut."""
        if self._guard is not None:
            with self._guard as guard:  # its standard input closes, and it kills the node
                guard.stdin and guard.stdin.close()
                guard.wait()
            self._guard = None

    def stop(self) -> None:
        """End it in peace; it is killed if it takes too long."""
        if self._guard is not None and self.running:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGCONT)
                os.kill(self._pid, signal.SIGTERM)
            until = time.monotonic() + STOP_TIMEOUT_S
            while self.running and time.monotonic() < until:
                time.sleep(0.02)
        self.kill()


class Ensemble:
    """The nodes, and where clients reach them."""

    def __init__(self, nodes: Sequence[ZooKeeperNode]) -> None:
        self.nodes = tuple(nodes)
        self.hosts = tuple(node.address for node in nodes)

    def start(self) -> None:
        """Start what does not run, and wait until all serve.

        Raises:
            ZooKeeperFailed: One ended, or takes longer than a minute.
        """
        for node in self.nodes:
            if not node.running:
                node.kill()
                node.start()
        until = time.monotonic() + START_TIMEOUT_S
        for node in self.nodes:
            while not node.ready:
                if not node.running or time.monotonic() > until:
                    log = (node.directory / "zookeeper.log").read_text(errors="replace")
                    raise ZooKeeperFailed(
                        f"the node in {node.directory} did not start: {log[-1000:]}"
                    )
                time.sleep(0.05)

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()


@contextmanager
def ensemble(
    directory: Path, nodes: int = 1, ports: Iterable[int] | None = None
) -> Iterator[Ensemble]:
    """Run so many nodes for the length of the block; they keep what they know in ``directory``.

    ``ports``: one for clients, and with several nodes two more for each; free ones unless told.

    Raises:
        JavaNotFound: There is no Java.
        ZooKeeperNotFound: There are no jars.
        ZooKeeperFailed: They do not start.
    """
    together = Ensemble(_nodes(directory, nodes, ports))
    try:
        together.start()
        yield together
    finally:
        together.stop()


def _nodes(directory: Path, nodes: int, ports: Iterable[int] | None) -> list[ZooKeeperNode]:
    each = 3 if nodes > 1 else 1
    numbers = list(ports) if ports is not None else free_ports(each * nodes)
    if len(numbers) != each * nodes:
        raise ValueError(f"{nodes} nodes need {each * nodes} ports, not {len(numbers)}")
    java = java_program(os.environ, "ZooKeeper")
    peers = [*numbers[nodes:], 0, 0]
    servers = [
        Node(number + 1, numbers[number], *peers[2 * number : 2 * number + 2])
        for number in range(nodes)
    ]
    made = []
    for server in servers:
        place = directory / f"node-{server.number}"
        others = [other for other in servers if other is not server]
        command = zookeeper_server.server_command(java, place, server, others)
        made.append(ZooKeeperNode(place, command, server.port))
    return made


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on at this moment."""
    held = [socket.create_server((HOST, 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


def _zombie(pid: int) -> bool:
    """Whether it has ended, and its parent has yet to hear of it; not known where /proc is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False
