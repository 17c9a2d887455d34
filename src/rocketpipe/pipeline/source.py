"""Topics as a Spark source: ``spark.read.format("rocketpipe")``.

Spark imports this file in a process of its own whenever anybody uses any Python source for the
first time. So it imports little, and Arrow and the client only when a read needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from rocketpipe.errors import RocketPipeError
from rocketpipe.pipeline.options import ReadOptions

if TYPE_CHECKING:
    from rocketpipe.pipeline.batch import BatchReader


class NotYet(RocketPipeError):
    """Something that this source will do in a later version; the text says what it does now."""


class RocketPipeSource(DataSource):
    """What Spark finds under the name ``rocketpipe``."""

    @classmethod
    def name(cls) -> str:
        return "rocketpipe"

    def schema(self) -> StructType:
        """Every column of a message; give a schema of your own to read fewer.

        Raises:
            OptionError: If an option is missing, unknown or wrong.
        """
        from rocketpipe.pipeline.rows import SCHEMA

        ReadOptions.parse(self.options)  # a wrong option fails here, at load(), not in a task
        return SCHEMA

    def reader(self, schema: StructType) -> BatchReader:
        """A read of what the topics hold now.

        Raises:
            OptionError: If an option is missing, unknown or wrong.
            ColumnError: If the schema asks for what messages do not have.
        """
        from rocketpipe.pipeline.batch import BatchReader

        return BatchReader(ReadOptions.parse(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        raise NotYet(
            "rocketpipe cannot write yet: spark.read works; to send, use rocketpipe.Producer"
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802 - Spark's
        self.writer(schema, overwrite)

    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: N802 - Spark's name
        raise NotYet("rocketpipe cannot be streamed yet: read what is there with spark.read")
