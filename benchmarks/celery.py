"""Celery on RocketPipe, Redis and RabbitMQ, in one run: ``python -m benchmarks.celery [--quick]``.

For each broker a worker (prefork, two processes) runs tasks that do nothing:

    latency    from the call of ``delay`` to the first line of the task, one at a time, idle between
    sent       tasks a second that one process sends, each after the one before
    run        tasks a second from the first send until the last task has run
    CPU        milliseconds of the broker, the worker and the sender for a task

Rounds go round the brokers, so that a machine which is busy is so for all of them. A broker that
can neither be found nor fetched is left out, and named.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.broker.generator import Unavailable
from benchmarks.broker.packages import CACHE, find_program

ROOT = Path(__file__).parent.parent
PATIENCE_S = 120
ERLANG = (
    "asn1 base crypto eldap ftp inets mnesia os-mon parsetools public-key runtime-tools snmp ssl"
)
ERLANG += " syntax-tools tftp tools xmerl"


@dataclass
class Broker:
    """A broker that runs, and what came of its rounds."""

    title: str
    url: str
    process: subprocess.Popen[bytes]
    options: dict[str, Any] = field(default_factory=dict)
    latency_ms: list[float] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    ran: list[float] = field(default_factory=list)
    cpu_s: list[tuple[float, float, float]] = field(default_factory=list)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def running(command: list[str], log: Path, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A program for the length of a block, with all its children."""
    with log.open("ab") as lines:
        process = subprocess.Popen(
            command, stdout=lines, stderr=lines, start_new_session=True, **options
        )
    try:
        yield process
    finally:
        for each in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, each)
                process.wait(20)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue


def listens(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        if process.poll() is not None:
            raise Unavailable(f"it ended: {log.read_text(errors='replace')[-300:]}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise Unavailable("it does not listen")


def rocketpipe(scratch: Path, stack: ExitStack) -> Broker:
    port, log = free_port(), scratch / "rocketpipe.log"
    command = [sys.executable, "-m", "rocketpipe.cli.main", "serve", "--data", str(scratch / "rp")]
    command += ["--namesrv", f"127.0.0.1:{port}", "--broker", "127.0.0.1:0"]
    process = stack.enter_context(running(command, log))
    listens(port, process, log)
    return Broker("RocketPipe", f"rocketpipe://127.0.0.1:{port}//", process)


def redis(scratch: Path, stack: ExitStack) -> Broker:
    packages = ["redis-server", "redis-tools", "libjemalloc2", "liblzf1"]
    program = find_program("redis-server", packages)
    port, log = free_port(), scratch / "redis.log"
    command = [str(program.path), "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    command += ["--dir", str(scratch), "--appendonly", "yes", "--appendfsync", "everysec"]
    process = stack.enter_context(running(command, log, env=dict(program.environment)))
    listens(port, process, log)
    return Broker("Redis", f"redis://127.0.0.1:{port}/0", process)


def rabbitmq(scratch: Path, stack: ExitStack) -> Broker:
    packages = ["rabbitmq-server", *(f"erlang-{name}" for name in ERLANG.split())]
    if shutil.which("erl") is None:
        find_program("rabbitmq-server", packages)  # unpacked, from where it is started by hand
        root = CACHE / "rabbitmq-server"
    else:
        root = Path("/")
    (home,) = sorted(root.glob("usr/lib/rabbitmq/lib/rabbitmq_server-*"))[-1:]
    (tools,) = sorted(root.glob("usr/lib/erlang/erts-*/bin"))[-1:]
    programs, state, log = scratch / "erlang", scratch / "rabbitmq", scratch / "rabbitmq.log"
    programs.mkdir()
    state.mkdir()
    # Debian's own knows one place only where it may be.
    (programs / "erl").write_text(
        f"#!/bin/sh\nexport ROOTDIR={tools.parents[1]} BINDIR={tools} EMU=beam PROGNAME=erl\n"
        f'exec {tools}/erlexec "$@"\n'
    )
    (programs / "erl").chmod(0o755)
    port, names = free_port(), free_port()
    told = {
        "HOME": str(state),
        "PATH": f"{programs}:/usr/bin:/bin",
        "ERL_EPMD_PORT": str(names),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_HOME": str(home),
        "RABBITMQ_MNESIA_BASE": str(state / "mnesia"),
        "RABBITMQ_LOG_BASE": str(state / "log"),
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(state / "plugins"),
    }
    epmd = stack.enter_context(running([str(tools / "epmd")], log, env=told))
    listens(names, epmd, log)
    command = [str(home / "sbin" / "rabbitmq-server")]
    process = stack.enter_context(running(command, log, env=told))
    listens(port, process, log)
    return Broker("RabbitMQ", f"amqp://guest:guest@127.0.0.1:{port}//", process)


def confirmed(broker: Broker) -> Broker:
    """The same broker, asked to say that it has each task before the next is sent, as ours does."""
    options = {"confirm_publish": True}
    return Broker(f"{broker.title}, confirmed", broker.url, broker.process, options)


def cpu_of(process: subprocess.Popen[bytes]) -> float:
    """Seconds of processors that a process and its children have used."""
    ticks = os.sysconf("SC_CLK_TCK")
    spent, parents = 0.0, {process.pid}
    processes = [path for path in Path("/proc").iterdir() if path.name.isdigit()]
    for path in sorted(processes, key=lambda each: int(each.name)):
        try:
            text = (path / "stat").read_text()
        except OSError:
            continue
        parts = text.rpartition(")")[2].split()
        if int(path.name) in parents or int(parts[1]) in parents:
            parents.add(int(path.name))
            spent += sum(int(each) for each in parts[11:15]) / ticks
    return spent


class Round:
    """A worker on one broker, and a sender in this process."""

    def __init__(self, broker: Broker, scratch: Path) -> None:
        self.broker = broker
        self.notes = scratch / "notes"
        self.notes.unlink(missing_ok=True)
        self.notes.touch()
        self._told = {
            **os.environ,
            "BENCH_BROKER": broker.url,
            "BENCH_OPTIONS": json.dumps(broker.options),
            "BENCH_NOTES": str(self.notes),
        }
        self._log = scratch / "worker.log"

    def measure(self, calls: int, tasks: int) -> None:
        command = [sys.executable, "-m", "celery", "-A", "benchmarks.celery_tasks", "worker"]
        command += ["-c", "2", "-n", f"bench{os.getpid()}@here", "-l", "warning"]
        with running(command, self._log, env=self._told, cwd=ROOT) as worker:
            broker = self.broker
            broker.latency_ms += self._told_by_sender(calls, 0)["latency_ms"]
            before = cpu_of(broker.process), cpu_of(worker)
            told = self._told_by_sender(0, tasks)
            after = cpu_of(broker.process), cpu_of(worker)
        broker.sent.append(told["sent"])
        broker.ran.append(told["ran"])
        spent = (after[0] - before[0], after[1] - before[1], told["cpu_s"])
        broker.cpu_s.append(tuple(each * 1000 / tasks for each in spent))  # type: ignore[arg-type]

    def _told_by_sender(self, calls: int, tasks: int) -> dict[str, Any]:
        sender = [sys.executable, "-m", "benchmarks.celery", "--sender", str(calls), str(tasks)]
        done = subprocess.run(
            sender, env=self._told, cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=1800
        )
        return dict(json.loads(done.stdout.splitlines()[-1]))


def lines_of(notes: Path) -> list[tuple[float, float]]:
    return [tuple(map(float, line.split())) for line in notes.read_text().splitlines()]  # type: ignore[misc]


def until(holds: Callable[[], bool]) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > until_s:
            raise TimeoutError("tasks do not run")
        time.sleep(0.005)


def send(calls: int, tasks: int) -> dict[str, Any]:
    """What one sender measures; in a process of its own, with the broker in its environment."""
    from benchmarks.celery_tasks import note

    notes = Path(os.environ["BENCH_NOTES"])
    size = len(lines_of(notes))
    note.delay(0.0)
    until(lambda: len(lines_of(notes)) > size)  # the worker is there, and warm
    for _ in range(calls):
        size = len(lines_of(notes))
        time.sleep(0.05)
        note.delay(time.time())
        until(lambda size=size: len(lines_of(notes)) > size)  # type: ignore[misc]
    found: dict[str, Any] = {
        "latency_ms": [(ran_s - at_s) * 1000 for at_s, ran_s in lines_of(notes) if at_s]
    }
    if tasks:
        size, used_s, begun_s = len(lines_of(notes)), time.process_time(), time.time()
        for _ in range(tasks):
            note.delay(0.0)
        sent_s, found["cpu_s"] = time.time(), time.process_time() - used_s
        until(lambda: notes.read_bytes().count(b"\n") >= size + tasks)
        last_s = max(ran_s for _, ran_s in lines_of(notes))
        found |= {"sent": tasks / (sent_s - begun_s), "ran": tasks / (last_s - begun_s)}
    return found


def quantile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def show(brokers: list[Broker]) -> None:
    print("| broker | latency, ms | 95 % | sent a second | run a second | CPU ms a task |")
    print("|---|---|---|---|---|---|")
    for each in brokers:
        parts = " + ".join(
            f"{statistics.median(part):.2f}" for part in zip(*each.cpu_s, strict=True)
        )
        print(
            f"| {each.title} | {statistics.median(each.latency_ms):.1f} "
            f"| {quantile(each.latency_ms, 0.95):.1f} | {statistics.median(each.sent):,.0f} "
            f"| {statistics.median(each.ran):,.0f} | {parts} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sender", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sender:
        print(json.dumps(send(*options.sender)))
        return
    rounds, calls, tasks = (1, 20, 300) if options.quick else (options.rounds, 60, 2000)
    with tempfile.TemporaryDirectory(prefix="bench-celery-") as directory, ExitStack() as stack:
        scratch, brokers = Path(directory), []
        for start in (rocketpipe, redis, rabbitmq):
            try:
                brokers.append(start(scratch, stack))
            except Unavailable as error:
                print(f"left out: {start.__name__}: {error}")
        brokers += [confirmed(each) for each in brokers if each.title == "RabbitMQ"]
        for number in range(rounds):
            for broker in brokers:
                print(f"round {number + 1} of {rounds}: {broker.title}", file=sys.stderr)
                Round(broker, scratch).measure(calls, tasks)
        show(brokers)


if __name__ == "__main__":
    main()
