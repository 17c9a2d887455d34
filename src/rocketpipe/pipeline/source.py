"""Topics as a Spark source: ``spark.read.format("rocketpipe")``."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from rocketpipe.pipeline.batch import BatchReader
from rocketpipe.pipeline.options import ReadOptions
from rocketpipe.pipeline.rows import SCHEMA


class RocketPipeSource(DataSource):
    """What Spark finds under the name ``rocketpipe``."""

    @classmethod
    def name(cls) -> str:
        return "rocketpipe"

    def schema(self) -> str:
        """Every column of a message; give a schema of your own to read fewer."""
        ReadOptions.parse(self.options)  # a wrong option fails here, at load(), not in a task
        return SCHEMA

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(ReadOptions.parse(self.options), schema)
