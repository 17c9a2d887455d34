"""What a job is given to work with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocketpipe.jobs.errors import JobFailed
from rocketpipe.jobs.options import JobOptions
from rocketpipe.pipeline.failures import first_words, spark_errors
from rocketpipe.pipeline.session import SparkPlace, opened

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """A run of a job: what it is told, whom it asks, and where it works."""

    job: str
    options: JobOptions
    #: The NameServers of the cluster that it asks.
    name_server: str
    #: A directory that only this job writes, and that lasts.
    data: Path
    place: SparkPlace = field(default_factory=SparkPlace)
    #: A session to work on; without one, each run has its own.
    spark: SparkSession | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    #: Told what is being done.
    tell: Callable[[str], None] = lambda said: None
    #: A block in which Spark works, for whoever shows how far it is.
    watched: Callable[[SparkSession], Any] | None = None

    @contextmanager
    def session(self) -> Iterator[SparkSession]:
        """Have Spark for the length of the block.

        Raises:
            ClusterUnreachable: If no server of the cluster listens.
            JavaNotFound: If there is no Java that Spark runs on.
            JobFailed: If Spark cannot do what the block asks for.
        """
        try:
            if self.spark is not None:
                yield self.spark
                return
            self.tell("Spark starts")
            with opened(self.place, name=f"rocketpipe job {self.job}") as spark:
                self.tell("")
                if self.watched is None:
                    yield spark
                else:
                    with self.watched(spark):
                        yield spark
        except spark_errors() as error:
            raise JobFailed(f"job {self.job}", first_words(str(error))) from error

    def messages(
        self, spark: SparkSession, topics: list[str], columns: str, **more: str
    ) -> DataFrame:
        """Messages of topics, with these columns."""
        options = {
            "nameServer": self.name_server,
            "subscribe": ",".join(topics),
            "columns": columns,
            **more,
        }
        return spark.read.format("rocketpipe").options(**options).load()


def arrow(frame: DataFrame) -> pa.Table:
    """All rows of a frame that has few."""
    return frame.toArrow()
