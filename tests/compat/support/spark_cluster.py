"""A Spark cluster on loopback, out of the installed PySpark: a master, workers, a Connect server.

Each is a process group of its own, which ends with the block and with whoever started it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from rocketpipe.pipeline.launch import prepare_alone
from rocketpipe.projects.server import ending_with_us

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
_START_LIMIT_S = 300


def environment(**more: str) -> dict[str, str]:
    """What a driver is started with: no other Spark than the installed one, and quick JVMs."""
    environ = dict(os.environ)
    prepare_alone(environ)
    environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    return environ | more


def cluster_environment(**more: str) -> dict[str, str]:
    """What processes of a cluster are started with."""
    home = str(Path(pyspark.__file__).parent)
    return environment(SPARK_HOME=home, SPARK_DAEMON_MEMORY="256m") | more


@dataclass(slots=True)
class Cluster:
    """A master and its workers."""

    directory: Path
    environ: Mapping[str, str]
    running: ExitStack
    master: str = ""
    workers: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def add_worker(self, number: int, *, environ: Mapping[str, str] | None = None) -> None:
        """Start a worker of one core, on an address of its own, and wait until it is known.

        No second attempt is made on the host of the first.
        """
        log = self.directory / f"worker-{number}.log"
        host = f"127.0.0.{number}"
        self.workers[number] = self.start(
            log,
            {**(environ or self.environ), "SPARK_LOCAL_IP": host},
            *("spark-class", _WORKER, "--host", host, "--webui-port", "0"),
            *("--cores", "1", "--memory", "1g"),
            *("--work-dir", str(self.directory / f"work-{number}"), self.master),
        )
        said(log, "Successfully registered with master")

    def kill_worker(self, number: int) -> None:
        """End a worker, and its executors, as a machine that loses its power does."""
        worker = self.workers.pop(number)
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def start(
        self, log: Path, environ: Mapping[str, str], program: str, *arguments: str
    ) -> subprocess.Popen[bytes]:
        """Start a program of Spark's for as long as the cluster is there."""
        command = [str(Path(environ["SPARK_HOME"]) / "bin" / program), *arguments]
        output = self.running.enter_context(log.open("wb"))
        return self.running.enter_context(ending_with_us(command, environ, self.directory, output))


@contextmanager
def spark_cluster(
    directory: Path, *, workers: int = 2, environ: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """A master and its workers, for the length of the block."""
    environ = cluster_environment() if environ is None else environ
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as running:
        cluster = Cluster(directory, environ, running)
        log = directory / "master.log"
        host = "127.0.0.1"
        cluster.start(
            log,
            {**environ, "SPARK_LOCAL_IP": host},
            *("spark-class", _MASTER, "--host", host, "--port", "0", "--webui-port", "0"),
        )
        cluster.master = said(log, r"Starting Spark master at (\S+)")[1]
        for number in range(1, workers + 1):
            cluster.add_worker(number)
        yield cluster


@contextmanager
def connect_server(
    directory: Path, master: str, *, environ: Mapping[str, str] | None = None, **settings: str
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server of Spark Connect, for the length of the block; gives its address and its process."""
    environ = {**(environ or cluster_environment()), "SPARK_DAEMON_MEMORY": "1g"}
    directory.mkdir(parents=True, exist_ok=True)
    given = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.local.dir": str(directory),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        **settings,
    }
    flags = [flag for name, value in given.items() for flag in ("--conf", f"{name}={value}")]
    log = directory / "connect.log"
    with ExitStack() as running:
        process = Cluster(directory, environ, running).start(
            log,
            environ,
            *("spark-submit", "--master", master, *flags, "--class", _CONNECT, "spark-internal"),
        )
        port = said(log, r"Spark Connect server started at: \S*?:(\d+)")[1]
        yield f"sc://127.0.0.1:{port}", process


def said(log: Path, words: str) -> re.Match[str]:
    """Wait for words in a log."""
    deadline_s = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline_s:
        found = re.search(words, log.read_text(errors="replace"))
        if found is not None:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{log} never said {words!r}")
