"""The Spark that a command runs on: one of its own, a cluster's, or one behind Spark Connect.

    with opened(SparkPlace(master="spark://spark-1:7077"), name="orders") as spark:
        ...

Without a place it is a Spark in this process, on all cores, whose files go when it ends. Whatever
it is, it knows ``format("rocketpipe")``.
"""

from __future__ import annotations

import os
import re
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketpipe.errors import ConfigError, RocketPipeError
from rocketpipe.pipeline import launch
from rocketpipe.pipeline.register import register, runs_alone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Where Spark listens if an address does not say so.
_PORTS: Final = {"spark": 7077, "sc": 15002}
_ADDRESS: Final = re.compile(r"(spark|sc)://(\[[^]]+\]|[^:/;,]+)(?::(\d+))?")
_REACH_TIMEOUT_S: Final = 5.0


class ClusterUnreachable(RocketPipeError):
    """Nobody listens where a Spark should be."""

    def __init__(self, place: str, reason: str) -> None:
        self.hint = "check the address, and that the cluster runs"
        super().__init__(f"no Spark at {place} ({reason}): {self.hint}")


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

    @property
    def is_own(self) -> bool:
        """Whether all of Spark runs in this process."""
        return self.remote is None and runs_alone(self.master)

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
            raise ClusterUnreachable(given.split(";")[0], str(failures[0]))


@contextmanager
def opened(
    place: SparkPlace | None = None, *, name: str, lasting: bool = False
) -> Iterator[SparkSession]:
    """Have a session for the length of the block.

    A Spark of this process is ``lasting`` if it is worth its better compiler: a stream that goes
    on, or a read of millions.

    Raises:
        ClusterUnreachable: If no server of the cluster listens.
        JavaNotFound: If there is no Java that Spark runs on.
    """
    place = SparkPlace() if place is None else place
    place.check_reachable()
    if place.is_own:
        with _own(place, name, lasting=lasting) as spark:
            yield spark
        return
    spark = _elsewhere(place, name)
    try:
        register(spark)
        yield spark
    finally:
        spark.stop()


@contextmanager
def _own(place: SparkPlace, name: str, *, lasting: bool) -> Iterator[SparkSession]:
    cores = re.fullmatch(r"local\[(\d+)\]", place.master or "")
    count = int(cores[1]) if cores else len(os.sched_getaffinity(0))
    with (
        tempfile.TemporaryDirectory(prefix="rocketpipe-spark-", ignore_cleanup_errors=True) as made,
        launch.local_spark(
            Path(made), name=name, cores=count, conf=place.conf, lasting=lasting
        ) as spark,
    ):
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        register(spark)
        yield spark


def _elsewhere(place: SparkPlace, name: str) -> SparkSession:
    from pyspark.sql import SparkSession

    if place.remote is None:
        launch.prepare()
    builder = SparkSession.builder.appName(name)
    if place.remote is not None:
        builder = builder.remote(place.remote)
    elif place.master is not None:
        builder = builder.master(place.master)
    for key, value in place.conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


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
