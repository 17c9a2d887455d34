"""Reads what the topics hold now, through their brokers.

The driver plans: it asks where the topics live and where their queues end. Tasks read: each pulls
its part of one queue and hands over Arrow batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rocketpipe.client.consumer.pull import pull_request
from rocketpipe.client.session import Session
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.subscription import EVERYTHING
from rocketpipe.pipeline.options import ReadOptions
from rocketpipe.pipeline.ranges import QueueRange, plan
from rocketpipe.pipeline.rows import columns_of, record_batch
from rocketpipe.record.codec import view_records
from rocketpipe.remoting.caller import Caller

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """One read of the topics' present contents."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = columns_of(schema)

    def partitions(self) -> list[QueueRange]:
        """One part for each queue that has messages."""
        return asyncio.run(self._plan())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        assert isinstance(partition, QueueRange)
        with asyncio.Runner() as runner:
            caller = Caller()
            try:
                offset = partition.start
                while offset < partition.end:
                    offset, batch = runner.run(self._pull(caller, partition, offset))
                    if batch.num_rows:
                        yield batch
            finally:
                runner.run(caller.__aexit__(None, None, None))

    async def _plan(self) -> list[QueueRange]:
        async with Session(self._options.name_servers) as session:
            found = []
            for topic in self._options.topics:
                route = await session.routes.get(topic)
                for queue in route.readable_queues(topic):
                    address = session.leader_of(queue, route)
                    ends = await session.ends_of(queue, address)
                    found.append(QueueRange(queue, address, *ends))
            return plan(found)

    async def _pull(
        self, caller: Caller, part: QueueRange, offset: QueueOffset
    ) -> tuple[QueueOffset, pa.RecordBatch]:
        request = pull_request(self._options.group, part.queue, offset, EVERYTHING, suspend_ms=0)
        reply = await caller.call(part.address, request)
        if reply.next_begin_offset <= offset:
            raise RocketPipeError(
                f"{part.queue.topic}: queue {part.queue.queue_id} of {part.queue.broker_name} ends "
                f"at {offset}, and {part.end} was planned: messages were removed meanwhile"
            )
        messages = [
            message for message in view_records(reply.messages) if message.queue_offset < part.end
        ]
        batch = record_batch(messages, part.queue.broker_name, self._columns)
        return reply.next_begin_offset, batch
