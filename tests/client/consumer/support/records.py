"""Messages as brokers hand them out, made by hand."""

from __future__ import annotations

from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.model import properties
from rocketpipe.model.host import Host
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.record.codec import encode_record

HOST = Host.parse("127.0.0.1:10911")


def queue(number: int = 0, topic: str = "t") -> MessageQueue:
    return MessageQueue(topic=topic, broker_name="a", queue_id=number)


def record(offset: int, *, body: bytes = b"body", tags: str | None = None) -> bytes:
    named = {} if tags is None else {properties.TAGS: tags}
    return encode_record(
        StoredMessage(
            topic="t",
            body=body,
            raw_properties=properties.encode(named).encode(),
            queue_id=0,
            queue_offset=QueueOffset(offset),
            log_offset=LogOffset(offset * 100),
            born_ms=1,
            born_host=HOST,
            stored_ms=2,
            store_host=HOST,
        )
    )


def messages(
    *offsets: int, of: MessageQueue | None = None, body: bytes = b"body"
) -> list[ReceivedMessage]:
    return [ReceivedMessage(record(offset, body=body), of or queue()) for offset in offsets]
