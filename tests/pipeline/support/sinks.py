"""What tests of the writer share: what a topic holds, and ways that only take note."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from rocketpipe.client.consumer.pulling.loop import pull_request
from rocketpipe.client.session import Session
from rocketpipe.errors import NoRoute
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import EVERYTHING
from rocketpipe.pipeline.writing.sender import SendUnit
from rocketpipe.record.codec import RecordView, view_records


@dataclass
class TakingNote:
    """A way that keeps what it is given."""

    queue_count: int = 4
    brokers: Sequence[str] = ("a",)
    sent: list[tuple[SendUnit, MessageQueue | None]] = field(default_factory=list)

    async def queues(self, topic: str, timeout_ms: int) -> Sequence[MessageQueue]:
        return [
            MessageQueue(topic=topic, broker_name=broker, queue_id=queue_id)
            for broker in self.brokers
            for queue_id in range(self.queue_count)
        ]

    async def send(self, parcel: SendUnit, queue: MessageQueue | None, timeout_ms: int) -> None:
        self.sent.append((parcel, queue))

    async def close(self) -> None:
        pass


def messages_in(name_server: str, topic: str) -> list[RecordView]:
    """Everything a topic shows now, queue by queue."""
    return asyncio.run(read_topic(name_server, topic))


async def read_topic(name_server: str, topic: str) -> list[RecordView]:
    """The same, on a loop that runs already; nothing of a topic that is not there."""
    found: list[RecordView] = []
    async with Session(name_server) as session:
        try:
            route = await session.routes.get(topic)
        except NoRoute:
            return found
        for queue in route.readable_queues(topic):
            address = session.leader_of(queue, route)
            at, end = await session.ends_of(queue, address)
            while at < end:
                request = pull_request("readers", queue, at, EVERYTHING, 0)
                reply = await session.caller.call(address, request)
                found += view_records(reply.messages)
                assert reply.next_begin_offset > at, "messages that cannot be read"
                at = reply.next_begin_offset
    return found
