"""A server for as long as it is measured: started, pinned, warmed up, run against, stopped."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.broker.generator import (
    STREAM_TOPIC,
    TOPIC,
    WARMUP_S,
    Generator,
    RunFailed,
    Sample,
)
from benchmarks.broker.peer import PORT_STEP, Peer, Start
from benchmarks.broker.scenarios import Scenario
from benchmarks.broker.usage import Memory, memory, processes

START_TIMEOUT_S: Final = 90
STOP_TIMEOUT_S: Final = 60
RETRY_S: Final = 0.02
#: After its first message a server is left alone this long before its idle memory is read.
SETTLE_S: Final = 1.0
#: Each load that is to come is tried at least this long.
WARMUP_RUN_S: Final = 0.5
#: What pulls and pops read, over and over: so many messages, or fewer where they are large.
PULLED_MESSAGES: Final = 64_000
PULLED_BYTES: Final = 64 << 20


class ServerFailed(Exception):
    """A server did not start; the message ends in what it logged last."""


@dataclass(frozen=True, slots=True)
class Pinning:
    """Which words before a command keep it on a core; none where the machine cannot."""

    server: Sequence[str] = ()
    generator: Sequence[str] = ()

    @classmethod
    def of_this_machine(cls) -> Pinning:
        """The first core is the server's, the last the generator's."""
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2 or shutil.which("taskset") is None:
            return cls()
        return cls(("taskset", "-c", str(cores[0])), ("taskset", "-c", str(cores[-1])))


@dataclass(slots=True)
class Server:
    """A server that answers."""

    peer: Peer
    port: int
    pid: int
    child: subprocess.Popen[bytes]
    #: From the start of its process until it had stored a first message.
    ready_s: float
    idle: Memory

    @property
    def ports(self) -> list[int]:
        """Where it listens."""
        return self.peer.ports(self.port)

    def measure(
        self,
        scenario: Scenario,
        generator: Generator,
        seconds: float,
        warmup_s: float = WARMUP_S,
    ) -> Sample:
        """Measure it under one kind of load.

        Raises:
            RunFailed: If any answer was not the one that was due.
        """
        try:
            self.peer.prepare(self.port)
        except OSError as error:
            raise RunFailed(f"not ready for a run: {error}") from error
        return generator.measure(
            scenario,
            port=self.ports,
            protocol=self.peer.protocols[scenario.kind],
            pid=self.pid,
            seconds=seconds,
            warmup_s=warmup_s,
            topic=topic_of(scenario),
            broker_names=self.peer.broker_names,
        )

    def kill(self) -> None:
        """End it and all that it started, with no time to put anything in order."""
        for member in processes(self.pid):
            with suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
        self.child.wait()

    def fill(self, scenarios: Sequence[Scenario], generator: Generator) -> None:
        """Fill the topics to read from, and have those made that are streamed to.

        Raises:
            RunFailed: If it does not take the messages.
        """
        reading = {(topic_of(each), each.body_bytes) for each in scenarios if each.reads}
        for topic, body_bytes in sorted(reading):
            generator.send(
                self.ports,
                self.peer.protocols["batch"],
                min(PULLED_MESSAGES, PULLED_BYTES // body_bytes),
                body_bytes=body_bytes,
                topic=topic,
                connections=4,
            )
        sending = self.peer.protocols["send"]
        if any(each.kind == "stream" for each in scenarios):
            generator.send(self.ports, sending, 100, topic=STREAM_TOPIC, connections=4)
        if most := max((each.topics for each in scenarios if each.topics > 1), default=0):
            count = 2 * most * self.peer.brokers
            generator.send(self.ports, sending, count, connections=16, topics=most)

    def warm_up(self, scenarios: Sequence[Scenario], generator: Generator, seconds: float) -> None:
        """Fill the topics to pull from, then let it run under each load that is to come.

        Raises:
            RunFailed: If it does not take the messages.
        """
        self.fill(scenarios, generator)
        for scenario in scenarios:
            self.measure(scenario, generator, max(WARMUP_RUN_S, seconds / len(scenarios)))


def topic_of(scenario: Scenario) -> str:
    """The topic that a load is for; of those that are read, the one with messages of that size."""
    if scenario.reads:
        return f"BenchPull{scenario.body_bytes}"
    return STREAM_TOPIC if scenario.kind == "stream" else TOPIC


@contextmanager
def running(
    peer: Peer,
    directory: Path,
    generator: Generator,
    pinning: Pinning,
    *,
    sync: bool,
    topics: int = 0,
) -> Iterator[Server]:
    """Run a server, with all its files in ``directory``, for the length of the block.

    Raises:
        ServerFailed: If it does not start.
    """
    start = Start(directory=directory, port=free_port(peer.brokers), sync=sync, topics=topics)
    command = [*(pinning.server if peer.one_core else ()), *peer.command(start)]
    with (directory / "server.log").open("wb") as log:
        began = time.monotonic()
        child = subprocess.Popen(
            command,
            cwd=directory,
            env=peer.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for us alone: we stop it when we are done
        )
    with child:
        try:
            ready_s = _until_ready(peer, child, start, generator, began)
            time.sleep(SETTLE_S)
            yield Server(peer, start.port, child.pid, child, ready_s, memory(child.pid))
        finally:
            stop(child)


def _until_ready(
    peer: Peer,
    child: subprocess.Popen[bytes],
    start: Start,
    generator: Generator,
    began: float,
) -> float:
    """Wait until a first message is stored; says how long that took."""
    while True:
        try:
            peer.prepare(start.port)
            for port in peer.ports(start.port):
                generator.send(port, peer.protocols["send"], 1)
        except (OSError, RunFailed) as error:
            if child.poll() is None and time.monotonic() < began + START_TIMEOUT_S:
                time.sleep(RETRY_S)
                continue
            log = (start.directory / "server.log").read_text(errors="replace")[-2000:]
            raise ServerFailed(f"{peer.title} did not start ({error}): {log.strip()}") from error
        return time.monotonic() - began


def stop(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def free_port(brokers: int = 1) -> int:
    """A port with those free beside it that brokers take too: two before it and one behind."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        try:
            for number in range(brokers):
                for beside in (-2, 0, 1):
                    with socket.socket() as probe:
                        probe.bind(("127.0.0.1", port + PORT_STEP * number + beside))
        except (OSError, OverflowError):
            continue
        return port
