"""The load generator: compiled from ``loadgen/`` when it is needed, and run against one server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.broker.scenarios import BATCH, Kind, Scenario
from benchmarks.broker.usage import busy_ns, cpu_ns

SOURCES: Final = Path(__file__).parent
BUILD: Final = Path(__file__).parent.parent.parent / "build" / "benchmarks"
TOPIC: Final = "BenchTopic"
STREAM_TOPIC: Final = "BenchStream"
QUEUES: Final = 4
#: Level 18 and two hours: what is put off does not come back while others are measured.
DELAYS: Final[Mapping[Kind, str]] = {"delay": "DELAY=18", "timer": "TIMER_DELAY_SEC=7200"}
WARMUP_S: Final = 0.5

#: Where a server listens; connections go to several in turns.
Ports = int | Sequence[int]


class Unavailable(Exception):
    """Something that this machine does not have and cannot get; the message says what."""


class RunFailed(Exception):
    """A run that gives no figure: the server refused, answered wrongly, or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one run came to."""

    messages_s: float
    p50_ms: float
    p99_ms: float
    #: The server's CPU time a message, in microseconds.
    cpu_us: float
    #: Cores that others kept busy meanwhile: neither the server nor the generator.
    foreign_cores: float
    p999_ms: float = 0.0
    #: The same as ``cpu_us`` of the server's replicas, together.
    replicas_us: float = 0.0


def compiled(build: Path = BUILD, name: str = "loadgen") -> Path:
    """Compile the generator, unless it is newer than its sources, and say where it is.

    ``bareloop`` beside it, the server that does the least, is compiled in the same way.

    Raises:
        Unavailable: If the machine cannot compile or run it.
    """
    if not sys.platform.startswith("linux"):
        raise Unavailable("the load generator waits with epoll, which only Linux has")
    program = build / name
    sources = sorted((SOURCES / name).glob("*.[ch]"))
    newest = max(source.stat().st_mtime_ns for source in sources)
    if program.exists() and program.stat().st_mtime_ns > newest:
        return program
    compiler = shutil.which(os.environ.get("CC") or "cc")
    if compiler is None:
        raise Unavailable("no C compiler: install one with `sudo apt-get install -y gcc libc6-dev`")
    build.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build) as scratch:
        made = Path(scratch) / name
        done = subprocess.run(
            [compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-o", str(made)]
            + [str(source) for source in sources if source.suffix == ".c"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise Unavailable(f"{name} does not compile:\n{done.stderr}")
        made.rename(program)
    return program


@dataclass(frozen=True, slots=True)
class Generator:
    """The compiled program, and the words before it that keep it on its own core."""

    program: Path
    pinning: Sequence[str] = ()

    def send(
        self,
        port: Ports,
        protocol: str,
        count: int,
        *,
        body_bytes: int = 100,
        topic: str = TOPIC,
        connections: int = 1,
        topics: int = 1,
    ) -> None:
        """Send so many messages, as fast as they are answered, to one broker or spread over some.

        Raises:
            RunFailed: If one of them is not stored.
        """
        arguments = ["--port", _listed(port), "--protocol", protocol, "--topic", topic]
        arguments += ["--connections", str(connections), "--body", str(body_bytes)]
        if topics > 1:
            arguments += ["--topics", str(topics), "--queues", "1"]
        arguments += ["--batch", str(BATCH), "--count", str(count)]
        self._run(arguments, pid=None)

    def measure(
        self,
        scenario: Scenario,
        *,
        port: Ports,
        protocol: str,
        pid: int,
        seconds: float,
        warmup_s: float = WARMUP_S,
        topic: str = TOPIC,
        broker_names: Sequence[str] = (),
        replicas: Sequence[int] = (),
        keyed: bool = False,
    ) -> Sample:
        """Put a server under one kind of load and measure it, and its replicas, from outside.

        What is ``keyed`` has a key of the user's in each message.

        Raises:
            RunFailed: If any answer was not the one that was due.
        """
        arguments = ["--port", _listed(port), "--protocol", protocol, "--topic", topic]
        arguments += ["--connections", str(scenario.connections)]
        arguments += ["--window", str(scenario.window), "--body", str(scenario.body_bytes)]
        arguments += ["--batch", str(BATCH), "--warmup", str(warmup_s), "--seconds", str(seconds)]
        if broker_names:
            arguments += ["--brokers", ",".join(broker_names)]
        if scenario.kind in DELAYS:
            arguments += ["--property", DELAYS[scenario.kind]]
        if scenario.kind == "stream":
            arguments += ["--rate", str(scenario.rate), "--groups", str(scenario.groups)]
        if scenario.topics > 1:
            arguments += ["--topics", str(scenario.topics), "--queues", "1"]
        if keyed:
            arguments += ["--keyed", "1"]
        return self._run(arguments, pid=pid, replicas=replicas)

    def _run(
        self, arguments: Sequence[str], *, pid: int | None, replicas: Sequence[int] = ()
    ) -> Sample:
        # It needs no time limit from here: after ten seconds without an answer it gives up.
        with tempfile.TemporaryFile("w+") as complaints:
            child = subprocess.Popen(
                [*self.pinning, str(self.program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
            )
            with child:
                assert child.stdout is not None
                child.stdout.readline()  # "measuring", or nothing if it gave up before
                before = _clocks(pid, child.pid, replicas)
                result = child.stdout.readline()
                after = _clocks(pid, child.pid, replicas)
                child.wait()
            complaints.seek(0)
            said = complaints.read().strip()
        if child.returncode != 0:
            raise RunFailed(said or f"the load generator left with {child.returncode}")
        return _sample(json.loads(result), [b - a for a, b in zip(before, after, strict=True)])


def _listed(port: Ports) -> str:
    return str(port) if isinstance(port, int) else ",".join(map(str, port))


def _clocks(
    server: int | None, generator: int, replicas: Sequence[int]
) -> tuple[int, int, int, int]:
    """CPU time so far: of the server, the generator, the server's replicas, the whole machine."""
    try:
        mine = 0 if server is None else cpu_ns(server)
        return mine, cpu_ns(generator), sum(map(cpu_ns, replicas)), busy_ns()
    except FileNotFoundError as error:
        raise RunFailed("the server is gone") from error


def _sample(result: dict[str, float], used: Sequence[int]) -> Sample:
    server_ns, generator_ns, replicas_ns, busy = used
    messages, seconds = result["messages"], result["seconds"]
    if not messages or not seconds:
        raise RunFailed("not one message was answered for")
    return Sample(
        messages_s=messages / seconds,
        p50_ms=result["p50_us"] / 1000,
        p99_ms=result["p99_us"] / 1000,
        p999_ms=result["p999_us"] / 1000,
        cpu_us=server_ns / 1000 / messages,
        foreign_cores=max(0.0, (busy - server_ns - generator_ns - replicas_ns) / 1e9 / seconds),
        replicas_us=replicas_ns / 1000 / messages,
    )
