"""The Spark of one run: a server of Spark Connect that nobody else can use, and that ends with us.

On a cluster it is the driver; where spark-submit started this process, it is in the JVM of that.

It listens on this machine alone, on a port that is free, and wants a token that only our own
processes have. Its catalogue is kept in the pipeline's folder: Spark's own forgets the tables, and
then refuses the directories that it finds in their place. What Spark would show of its queries in a
browser it writes into an event log, from which their progress is read.
"""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rocketpipe import attached
from rocketpipe.errors import ConfigError
from rocketpipe.pipeline import launch
from rocketpipe.pipeline.register import package_root, packed
from rocketpipe.pipeline.session import ClusterUnreachable, SparkPlace
from rocketpipe.projects.errors import MissingPackage, ServerFailed
from rocketpipe.projects.folder import Folder

CLASS: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
LOG_NAME: Final = "spark.log"
#: So long a machine that is busy may take to start Spark.
START_TIMEOUT_S: Final = 300
STOP_TIMEOUT_S: Final = 20

_NEEDED: Final = ("pyspark", "grpc", "grpc_status", "pandas", "pyarrow", "yaml", "zstandard")
_SCRATCH: Final = "spark-"
_TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the name of a variable
_PLUGIN: Final = "org.apache.spark.sql.connect.SparkConnectPlugin"
#: Settings of a Spark on this machine alone, which a cluster has its own of.
_ALONE: Final = (
    "spark.driver.bindAddress",
    "spark.driver.host",
    "spark.local.dir",
    "spark.sql.shuffle.partitions",
    "spark.ui.enabled",
)
#: The event by which the server tells its port; its log is silent but for what is wrong.
_LISTENS: Final = re.compile(r'SparkListenerConnectServiceStarted".*?"bindingPort":(\d+)')
_LOOK_EVERY_S: Final = 0.2
_NEIGHBOUR_EVERY_S: Final = 3.0
_LOG_TAIL: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Server:
    """Where a pipeline's Spark is, and what a client of it needs in its environment."""

    environment: Mapping[str, str]
    #: None for a server that is not ours.
    process: subprocess.Popen[bytes] | None = None
    #: Where its event log grows, if it is ours.
    events: Path | None = None
    #: Asked whether it is there, if it is no process of ours.
    answers: Callable[[], bool] = lambda: True

    @property
    def is_alive(self) -> bool:
        """Whether it runs, as far as we can know."""
        return self.answers() if self.process is None else self.process.poll() is None


@contextmanager
def serving(folder: Folder, place: SparkPlace, name_servers: str | None) -> Iterator[Server]:
    """Have a Spark for the length of the block: one of our own, or one that is there already.

    Raises:
        ServerFailed: If it does not start.
        ClusterUnreachable: If nobody listens where it should be.
        JavaNotFound: If there is no Java that Spark runs on.
        MissingPackage: If what Spark Connect needs is not installed.
    """
    check_packages()
    place.check_reachable()
    environment = dict(os.environ)
    if place.remote is not None:
        if place.conf:
            raise ConfigError("--conf", "a server that runs has its settings: leave --conf out")
        launch.leave_driver(environment)
        yield Server({**environment, "SPARK_REMOTE": place.remote}, answers=_Neighbour(place))
        return
    remove_leftovers(folder)
    scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=folder.own))
    try:
        if place.is_own:
            launch.prepare_alone(environment)
            environment["PYSPARK_PYTHON"] = launch.lean_python(scratch, environment)
        else:
            launch.prepare_driver(environment)
        environment[_TOKEN] = secrets.token_urlsafe(32)
        if name_servers:
            environment["ROCKETPIPE_NAMESRV"] = name_servers
        start = _inside if place.is_submitted else _started
        with start(folder, place, scratch, environment) as server:
            yield server
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def check_packages() -> None:
    """Refuse early what would end in a traceback of Spark's.

    Raises:
        MissingPackage: If what Spark Connect needs is not installed.
    """
    for package in _NEEDED:
        if importlib.util.find_spec(package) is None:
            raise MissingPackage(package)


def settings(folder: Folder, place: SparkPlace, scratch: Path) -> dict[str, str]:
    """What the server is told; the user's own settings come last."""
    events = scratch / "events"
    given = {
        **launch.settings(scratch),
        "spark.app.name": f"rocketpipe pipeline {folder.name}",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.rolling.enabled": "true",
        "spark.eventLog.rolling.maxFileSize": "10m",
        "spark.log.level": "WARN",
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={folder.catalogue};create=true"
        ),
        "spark.sql.catalogImplementation": "hive",
        # Each flow starts a Python of its own, which has ten seconds to answer.
        "spark.sql.pipelines.execution.maxConcurrentFlows": str(_flows_at_once(place)),
        # As others read them too: Spark's own kind has no zone there.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": folder.tables,
    }
    if not place.is_own:
        for name in _ALONE:
            del given[name]
        # Nodes see the folder, or have the package installed.
        archive = package_root() if package_root().is_file() else packed(package_root(), scratch)
        given["spark.executorEnv.PYTHONPATH"] = str(archive)
    if not place.is_submitted:
        given["spark.master"] = place.master or "local[*]"
    return {**given, **place.conf}


def _flows_at_once(place: SparkPlace) -> int:
    return max(2, len(os.sched_getaffinity(0))) if place.is_own else 16


def remove_leftovers(folder: Folder) -> None:
    """Remove what a command left behind that was killed; its processes ended with it."""
    for place in folder.own.glob(f"{_SCRATCH}*"):
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _started(
    folder: Folder, place: SparkPlace, scratch: Path, environment: dict[str, str]
) -> Iterator[Server]:
    (scratch / "events").mkdir()
    properties = scratch / "spark.properties"
    properties.touch(mode=0o600)
    properties.write_text(
        "".join(
            f"{name}={_escaped(value)}\n"
            for name, value in settings(folder, place, scratch).items()
        )
    )
    log = folder.own / LOG_NAME
    defaults = [] if place.is_own else ["--load-spark-defaults"]
    flags = ["--properties-file", str(properties), *defaults]
    command = [_submit(environment), *flags, "--class", CLASS, "spark-internal"]
    with log.open("wb") as output, ending_with_us(command, environment, folder.root, output) as jvm:
        port = _port(lambda: jvm.poll() is None, scratch / "events", log)
        remote = {
            # By this name the client trusts a channel of this machine with the token.
            "SPARK_REMOTE": f"sc://localhost:{port}",
            **environment,
        }
        yield Server(remote, jvm, scratch / "events")


@contextmanager
def _inside(
    folder: Folder, place: SparkPlace, scratch: Path, environment: dict[str, str]
) -> Iterator[Server]:
    """A server in the JVM of the spark-submit that started us, whose settings go first."""
    from pyspark import SparkConf, SparkContext

    (scratch / "events").mkdir()
    conf = SparkConf()
    for name, value in settings(folder, place, scratch).items():
        if name != "spark.driver.extraJavaOptions":  # it runs
            conf.setIfMissing(name, value)
    plugins = [*filter(None, (conf.get("spark.plugins", "") or "").split(",")), _PLUGIN]
    conf.set("spark.plugins", ",".join(plugins))
    conf.set("spark.connect.authenticate.token", environment[_TOKEN])
    parent = os.getppid()
    context = SparkContext(conf=conf)
    try:

        def runs() -> bool:
            jvm: Any = context._jsc  # noqa: SLF001 - there is no other way to ask
            return os.getppid() == parent and jvm is not None and not jvm.sc().isStopped()

        port = _port(runs, scratch / "events", folder.own / LOG_NAME)
        remote = {"SPARK_REMOTE": f"sc://localhost:{port}", **environment}
        yield Server(remote, None, scratch / "events", runs)
    finally:
        context.stop()


class _Neighbour:
    """A server that is not ours: it is looked at every few seconds, for it may be gone."""

    def __init__(self, place: SparkPlace) -> None:
        self._place = place
        self._seen_s = time.monotonic()

    def __call__(self) -> bool:
        now_s = time.monotonic()
        if now_s - self._seen_s < _NEIGHBOUR_EVERY_S:
            return True
        try:
            self._place.check_reachable()
        except ClusterUnreachable:
            return False
        self._seen_s = now_s
        return True


@contextmanager
def ending_with_us(
    command: list[str],
    environment: Mapping[str, str],
    directory: Path,
    errors: object,
    **streams: int,
) -> Iterator[subprocess.Popen[bytes]]:
    """A process group that ends with the block, and with this process however that ends."""
    reading, writing = os.pipe()
    process = None
    try:
        process = subprocess.Popen(  # noqa: S603 - our own programs, without a shell
            [
                sys.executable,
                "-I",
                "-S",
                attached.__file__,
                str(os.getpid()),
                str(reading),
                *command,
            ],
            env=dict(environment),
            cwd=directory,
            stdin=streams.get("stdin", subprocess.DEVNULL),
            stdout=streams.get("stdout", errors),  # type: ignore[call-overload]
            stderr=errors,
            pass_fds=(reading,),
            start_new_session=True,  # Ctrl-C is for us: we end it in order
        )
        yield process
    finally:
        os.close(reading)
        if process is not None:
            end(process)
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
        os.close(writing)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process group in order; what does not end in time is killed."""
    _signal(process, 15)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        pass
    _signal(process, 9)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass


def _submit(environment: Mapping[str, str]) -> str:
    from pyspark.find_spark_home import _find_spark_home

    home = environment.get("SPARK_HOME") or _find_spark_home()
    return str(Path(home) / "bin" / "spark-submit")


def _port(runs: Callable[[], bool], events: Path, log: Path) -> int:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        for file in events.glob("eventlog_v2_*/events_1_*"):
            found = _LISTENS.search(file.read_text(encoding="utf-8", errors="replace"))
            if found is not None:
                return int(found[1])
        if not runs():
            told = [line for line in _tail(log) if "rror" in line or "Exception" in line]
            reason = (told or ["it said nothing"])[0].strip()
            raise ServerFailed(f"Spark did not start ({reason}): see {log}")
        time.sleep(_LOOK_EVERY_S)
    raise ServerFailed(
        f"Spark did not start within {START_TIMEOUT_S} s: the machine may be too busy; see {log}"
    )


def _tail(log: Path) -> list[str]:
    if not log.exists():  # spark-submit has it elsewhere
        return []
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _LOG_TAIL))
        return file.read().decode("utf-8", "replace").splitlines()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
