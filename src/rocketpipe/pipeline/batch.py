"""Reads what the topics hold now, through their brokers.

The driver plans: it asks where the topics live and where their queues end. Tasks read: each pulls
its part of one queue and hands over Arrow batches. What comes in after the plan is not read, and
what is removed after it is missed loudly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rocketpipe.client.consumer.pull import PULL_TIMEOUT_MS, pull_request
from rocketpipe.client.session import Session
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.subscription import EVERYTHING
from rocketpipe.pipeline.options import ReadOptions
from rocketpipe.pipeline.ranges import QueueRange, plan
from rocketpipe.pipeline.rows import check_columns, record_batches
from rocketpipe.record.codec import RecordView, view_records
from rocketpipe.remoting.caller import Caller

if TYPE_CHECKING:
    import pyarrow as pa


class MessagesGone(RocketPipeError):
    """A queue no longer has a message that the plan of this read counted on."""

    def __init__(self, part: QueueRange, offset: QueueOffset) -> None:
        queue = part.queue
        super().__init__(
            f"topic {queue.topic!r}: message {offset} in queue {queue.queue_id} of broker "
            f"{queue.broker_name!r} was removed after this read was planned (up to {part.end}): "
            "read again"
        )
        self.part = part
        self.offset = offset


class BatchReader(DataSourceReader):
    """One read of the topics' present contents."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """Prepare a read; nothing is asked yet.

        Raises:
            ColumnError: If the schema asks for what messages do not have.
        """
        check_columns(schema)
        self._options = options
        self._schema = schema

    def partitions(self) -> list[QueueRange]:
        """One part for each queue that has messages.

        Raises:
            NoRoute: If no NameServer knows one of the topics.
            ConnectionLost: If no NameServer, or one of the brokers, can be reached.
        """
        return asyncio.run(self._plan())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part; closing the iterator early ends its connection.

        Raises:
            MessagesGone: If the queue lost messages since the plan.
            UnreadableMessage: If a record is damaged, or its body does not inflate.
            ConnectionLost: If the broker is out of reach.
        """
        if not isinstance(partition, QueueRange):
            return  # where no part was planned, Spark makes one up
        with asyncio.Runner() as runner:
            caller = Caller()
            try:
                messages = self._messages(runner, caller, partition)
                yield from record_batches(messages, partition.queue.broker_name, self._schema)
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

    def _messages(
        self, runner: asyncio.Runner, caller: Caller, part: QueueRange
    ) -> Iterator[RecordView]:
        expected = part.start
        while expected < part.end:
            records = runner.run(self._pull(caller, part, expected))
            if not records:
                raise MessagesGone(part, expected)
            for message in view_records(records):
                if expected == part.end:
                    return
                if message.queue_offset != expected:
                    raise MessagesGone(part, expected)
                yield message
                expected = QueueOffset(expected + 1)

    async def _pull(self, caller: Caller, part: QueueRange, offset: QueueOffset) -> bytes:
        request = pull_request(self._options.group, part.queue, offset, EVERYTHING, suspend_ms=0)
        reply = await caller.call(part.address, request, PULL_TIMEOUT_MS)
        return reply.messages
