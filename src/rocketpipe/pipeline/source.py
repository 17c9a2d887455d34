"""Topics as a Spark source and sink: ``format("rocketpipe")``.

Spark imports this file in a process of its own whenever anybody uses any Python source for the
first time. So it imports little, and Arrow and the client only when a read needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter
from pyspark.sql.types import StructType

from rocketpipe.pipeline.telling import plainly

if TYPE_CHECKING:
    from rocketpipe.pipeline.batch import BatchReader
    from rocketpipe.pipeline.refused_stream import RefusedStream
    from rocketpipe.pipeline.stream import StreamReader
    from rocketpipe.pipeline.writer import BatchWriter


class RocketPipeSource(DataSource):
    """What Spark finds under the name ``rocketpipe``."""

    @classmethod
    def name(cls) -> str:
        return "rocketpipe"

    @plainly()
    def schema(self) -> StructType:
        """Every column of a message, or those the options ask for.

        Spark asks for it at ``load()``, so what is wrong with the options shows there.

        Raises:
            OptionError: If an option is missing, unknown or wrong.
            ColumnError: If an option names a column that there is not.
            BodySchemaError: If the schema of bodies is not there, or none.
            RegistryError: If the schema registry does not answer.
            UnknownTopic: If there is no such topic.
            ConnectionLost: If no NameServer can be reached.
        """
        from rocketpipe.pipeline.columns.rows import schema_of
        from rocketpipe.pipeline.open_offsets import check_offsets
        from rocketpipe.pipeline.options.read import ReadOptions
        from rocketpipe.pipeline.spark_columns import remembering, spark_schema

        options = ReadOptions.parse(self.options).resolved()
        schema = schema_of(options)
        check_offsets(options)
        return remembering(spark_schema(schema), self.options)

    @plainly()
    def reader(self, schema: StructType) -> BatchReader:
        """A read of what the topics hold now.

        Raises:
            OptionError: If an option is missing, unknown or wrong.
            ColumnError: If the schema asks for what messages do not have.
        """
        from rocketpipe.pipeline.batch import BatchReader, FilteringBatchReader
        from rocketpipe.pipeline.options.read import ReadOptions
        from rocketpipe.pipeline.spark_columns import arrow_schema, remembered

        options = ReadOptions.parse(remembered(schema, self.options)).resolved()
        kind = FilteringBatchReader if options.push_down else BatchReader
        return kind(options, arrow_schema(schema))

    def streamReader(  # noqa: N802 - Spark's name
        self, schema: StructType
    ) -> StreamReader | RefusedStream:
        """A reader that follows the topics, or one that says why it cannot when it is asked."""
        from rocketpipe.errors import RocketPipeError
        from rocketpipe.pipeline.options.read import ReadOptions
        from rocketpipe.pipeline.refused_stream import RefusedStream
        from rocketpipe.pipeline.spark_columns import arrow_schema, remembered
        from rocketpipe.pipeline.stream import StreamReader

        try:
            options = ReadOptions.parse(remembered(schema, self.options)).resolved()
            return StreamReader(options, arrow_schema(schema))
        except RocketPipeError as error:
            return RefusedStream(error)

    @plainly()
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """A writer of one frame.

        Raises:
            OptionError: If an option is missing, unknown or wrong.
            BadColumn: If the frame has what cannot be sent.
        """
        from rocketpipe.pipeline.writer import batch_writer

        return batch_writer(self.options, schema, overwrite)

    @plainly()
    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """A writer of a stream's batches.

        Raises:
            OptionError: If an option is missing, unknown or wrong.
            BadColumn: If the frame has what cannot be sent.
        """
        from rocketpipe.pipeline.writer import stream_writer

        return stream_writer(self.options, schema, overwrite)
