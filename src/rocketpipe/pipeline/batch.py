"""Reads what the topics hold now.

The driver plans: it asks where the topics live and where their queues begin and end. Tasks read:
each its part, through the brokers or from the log, and hands over Arrow batches. What comes in
after the plan is not read, and what is removed after it is missed loudly.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from rocketpipe.pipeline.columns.rows import SCHEMA, check_columns
from rocketpipe.pipeline.open_offsets import open_offsets
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.partition import SparkPartition
from rocketpipe.pipeline.planning.ranges import QueueRange, plan, to_measure
from rocketpipe.pipeline.present import present_ranges
from rocketpipe.pipeline.telling import is_news, plainly

if TYPE_CHECKING:
    import pyarrow as pa


log = logging.getLogger("rocketpipe.pipeline")

#: Who reads so many messages with all their columns is told how to read less.
HINT_FROM: Final = 1_000_000


class BatchReader(DataSourceReader):
    """One read of the topics' present contents."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        """Prepare a read; nothing is asked yet.

        Raises:
            ColumnError: If the schema asks for what messages do not have.
            OptionError: If the options are those of a stream.
        """
        check_columns(schema, options)
        options.check_batch()
        self._options = options
        self._schema = schema
        self._wanted = options.wanted

    @plainly()
    def partitions(self) -> Sequence[SparkPartition]:
        """What each task reads.

        Raises:
            UnknownTopic: If there is no such topic.
            OptionError: If an option names a queue that is not there.
            MessagesGone: If messages were asked for that have aged out.
            QueuesUnreachable: If one of the brokers cannot be asked.
            ConnectionLost: If no NameServer can be reached.
        """
        with closing(open_offsets(self._options)) as places:
            ranges = present_ranges(places, self._options, self._wanted)
            sizes = places.sizes(to_measure(ranges))
            addresses = places.addresses()
        planned = plan(
            ranges,
            sizes,
            max_bytes=self._options.max_bytes_per_partition,
            min_partitions=self._options.min_partitions,
        )
        self._tell(ranges, len(planned))
        return [SparkPartition(each, addresses) for each in planned]

    def _tell(self, ranges: Sequence[QueueRange], tasks: int) -> None:
        """Say what Spark's plan does not show, and what may be read for nothing."""
        count = sum(each.count for each in ranges)
        log.info(
            "read planned topics=%s queues=%d messages=%d tasks=%d conditions=%s",
            ",".join(sorted({each.queue.topic for each in ranges})),
            len({each.queue for each in ranges}),
            count,
            tasks,
            self._wanted.text() or "none",
        )
        everything = set(SCHEMA.names) <= set(self._schema.names)
        if everything and count >= HINT_FROM and is_news("all-columns"):
            log.warning(
                "all columns of %d messages are read, as Spark does not say which it needs: "
                '.option("columns", "…") with those that you use reads less, and to count, '
                '"queue_offset" does',
                count,
            )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part; closing the iterator early ends its connection.

        Raises:
            MessagesGone: If the queue lost messages since the plan.
            UnreadableMessage: If a record is damaged, or its body does not inflate.
            ConnectionLost: If the broker is out of reach.
        """
        from rocketpipe.pipeline.reading import read_part

        if isinstance(partition, SparkPartition):  # where none was planned, Spark makes one up
            with plainly():
                yield from read_part(partition, self._options, self._schema, self._wanted)


class FilteringBatchReader(BatchReader):
    """A read that takes note of a query's conditions, and reads less.

    Spark refuses a reader that has this method unless
    ``spark.sql.python.filterPushdown.enabled`` is set: so it is a class of its own.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Read what these may leave; gives those for which Spark has to look at rows again."""
        self._wanted = self._wanted.narrowed(filters)
        return [each for each in filters if not self._wanted.settles(each)]
