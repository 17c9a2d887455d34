"""The Spark that a command runs on: one of its own, a cluster's, or one behind Spark Connect.

    with opened(SparkPlace(master="spark://spark-1:7077"), name="orders") as spark:
        ...

Without a place it is that of the spark-submit which started this process, and without one a Spark
in this process, on all cores, whose files go when it ends. Whatever it is, it knows
``format("rocketpipe")``.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketpipe.errors import ConfigError, RocketPipeError
from rocketpipe.pipeline import launch
from rocketpipe.pipeline.register import register, runs_alone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Where Spark listens if an address does not say so.
_PORTS: Final = {"spark": 7077, "sc": 15002}
_ADDRESS: Final = re.compile(r"(spark|sc)://(\[[^]]+\]|[^:/;,]+)(?::(\d+))?")
_REACH_TIMEOUT_S: Final = 5.0
#: So long a server that took the connection may take to begin to speak.
_SPEAK_TIMEOUT_S: Final = 30.0
_MASTERS: Final = re.compile(
    r"local(\[.+\])?|local-cluster\[\d+,\d+,\d+\]|yarn|k8s://.+"
    r"|spark://(\[[^]]+\]|[^:/;,\s]+):\d+(,(\[[^]]+\]|[^:/;,\s]+):\d+)*"
)
#: What the log of a driver says that did not start, and what that means.
_REFUSALS: Final = {
    "All masters are unresponsive": "who listens there does not answer as a master does",
    "INVALID_ARGUMENT": "it does not take what it is told",
    "UNAUTHENTICATED": "it wants another token",
    "Invalid authentication token": "it wants another token",
    "Authentication token is required": "it wants a token: sc://HOST:PORT/;token=…",
}


class ClusterUnreachable(RocketPipeError):
    """There is no Spark where one should be, or it does not let us in."""

    def __init__(self, place: str, reason: str) -> None:
        self.hint = "check the address, and that the cluster runs"
        super().__init__(f"no Spark at {place} ({reason}): {self.hint}")
        self.place = place
        self.reason = reason

    def __reduce__(self) -> tuple[type[ClusterUnreachable], tuple[str, str]]:
        return type(self), (self.place, self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPlace:
    """Where a command's Spark is: ``master`` as of spark-submit, or ``remote`` as ``sc://…``."""

    master: str | None = None
    remote: str | None = None
    #: Settings of Spark's own, which come after ours.
    conf: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.master is not None and self.remote is not None:
            raise ConfigError("--remote", "either --master or --remote, not both")
        if self.remote is not None and not self.remote.startswith("sc://"):
            raise ConfigError("--remote", f"{self.remote!r} is no sc://HOST:PORT")
        if self.master is not None and _MASTERS.fullmatch(self.master) is None:
            meant = "; that of Spark Connect is for --remote" if "sc://" in self.master else ""
            raise ConfigError(
                "--master",
                f"{self.master!r} is none of spark://HOST:PORT, yarn, k8s://https://HOST:PORT and "
                f"local[N]{meant}",
            )

    @property
    def is_submitted(self) -> bool:
        """Whether it is the Spark of the spark-submit that started this process."""
        return self.remote is None and self.master is None and launch.GATEWAY in os.environ

    @property
    def is_own(self) -> bool:
        """Whether all of Spark runs in this process."""
        return self.remote is None and not self.is_submitted and runs_alone(self.master)

    def __str__(self) -> str:
        """Its address, without the token that may be in it."""
        return (self.remote or self.master or "this process").split(";")[0]

    def check_reachable(self) -> None:
        """Find out in a moment what Spark would find out in a minute.

        Raises:
            ClusterUnreachable: If no server of a cluster that has an address listens there.
        """
        given = self.remote or self.master or ""
        listed = _ADDRESS.match(given)
        if listed is None:
            return
        scheme = listed[1]
        hosts = given.removeprefix(f"{scheme}://").split("/")[0].split(";")[0].split(",")
        failures = [_failure(f"{scheme}://{host}") for host in hosts]
        if all(failures):
            raise ClusterUnreachable(str(self), str(failures[0]))
        if self.remote is not None:
            _check_speaks(self.remote)


@contextmanager
def opened(
    place: SparkPlace | None = None, *, name: str, lasting: bool = False
) -> Iterator[SparkSession]:
    """Have a session for the length of the block.

    A Spark of this process is ``lasting`` if it is worth its better compiler: a stream that goes
    on, or a read of millions.

    Raises:
        ClusterUnreachable: If no server of the cluster listens, or none lets us in.
        JavaNotFound: If there is no Java that Spark runs on.
    """
    place = SparkPlace() if place is None else place
    place.check_reachable()
    with ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="rocketpipe-spark-", ignore_cleanup_errors=True)
        scratch = Path(stack.enter_context(made))
        if place.is_own:
            yield stack.enter_context(_own(place, name, scratch, lasting=lasting))
            return
        try:
            spark = stack.enter_context(_elsewhere(place, name, scratch))
            register(spark)
        except RocketPipeError:
            raise
        except Exception as error:  # Py4J's, gRPC's and PySpark's have no base of their own
            raise ClusterUnreachable(str(place), _reason(error, scratch)) from error
        with _told_if_gone(place):
            yield spark


@contextmanager
def _told_if_gone(place: SparkPlace) -> Iterator[None]:
    """Say of a server of Spark Connect that dies within the block that it did, and no more."""
    try:
        yield
    except Exception as error:
        if place.remote is None:
            raise
        try:
            place.check_reachable()
        except ClusterUnreachable:
            raise ClusterUnreachable(
                str(place), "it died; what runs again goes on where it was"
            ) from error
        raise


@contextmanager
def _own(place: SparkPlace, name: str, scratch: Path, *, lasting: bool) -> Iterator[SparkSession]:
    cores = re.fullmatch(r"local\[(\d+)\]", place.master or "")
    count = int(cores[1]) if cores else len(os.sched_getaffinity(0))
    with launch.local_spark(
        scratch, name=name, cores=count, conf=place.conf, lasting=lasting
    ) as spark:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        register(spark)
        yield spark


@contextmanager
def _elsewhere(place: SparkPlace, name: str, scratch: Path) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    if place.master is not None:
        with launch.cluster_spark(
            scratch, master=place.master, name=name, conf=place.conf
        ) as spark:
            yield spark
        return
    if place.remote is not None:
        launch.leave_driver(os.environ)
    was_there = None if place.remote else SparkSession.getActiveSession()
    builder = SparkSession.builder
    # Spark-submit has named its application, unless it took the name of our file.
    builder = builder.remote(place.remote) if place.remote else builder.appName(name)
    for key, value in place.conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if place.remote is not None:
        _lose_patience(spark)
    try:
        yield spark
    finally:
        if was_there is None:
            spark.stop()


def _lose_patience(spark: Any) -> None:
    """Have a client try for half a minute, not ten: a server that comes back has no session."""
    from pyspark.sql.connect.client import retries

    # What it says while it tries, and of a session that it cannot release, is told in a line.
    logging.getLogger("pyspark.sql.connect").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", message=r".*RETRIES_EXCEEDED", category=UserWarning)
    spark.client.set_retry_policies([retries.DefaultPolicy(max_retries=8, max_backoff=5_000)])


def _reason(error: Exception, scratch: Path) -> str:
    """Why a driver did not start, in a few words."""
    log = scratch / launch.LOG_NAME
    told = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    said = f"{error}\n{told}"
    for words, meaning in _REFUSALS.items():
        if words in said:
            return meaning
    causes = re.findall(r"^(?:Caused by: |: )?[\w.]+(?:Exception|Error): ([^\n]+)", said, re.M)
    return causes[0] if causes else str(error).strip().split("\n")[0]


def _failure(address: str) -> OSError | None:
    """Why nobody can be reached at an address, if so."""
    listed = _ADDRESS.match(address)
    if listed is None:
        return None
    host, port = listed[2].strip("[]"), int(listed[3] or _PORTS[listed[1]])
    try:
        socket.create_connection((host, port), timeout=_REACH_TIMEOUT_S).close()
    except OSError as error:
        return error
    return None


def _check_speaks(remote: str) -> None:
    """Find out whether a server speaks gRPC: Spark's client would try for ten minutes.

    Raises:
        ClusterUnreachable: If it does not.
    """
    listed = _ADDRESS.match(remote)
    assert listed is not None
    has_token = "token=" in remote or "SPARK_CONNECT_AUTHENTICATE_TOKEN" in os.environ
    if "use_ssl=true" in remote.lower() or (has_token and listed[2] != "localhost"):
        return  # encrypted: Spark's own client knows how
    try:
        import grpc
    except ImportError as error:
        raise ConfigError(
            "--remote", f"{error.name} is not installed: install the extra pipelines"
        ) from error
    with grpc.insecure_channel(f"{listed[2]}:{listed[3] or _PORTS['sc']}") as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=_SPEAK_TIMEOUT_S)
        except grpc.FutureTimeoutError as error:
            raise ClusterUnreachable(
                remote.split(";")[0], "who listens there does not speak as Spark Connect does"
            ) from error
