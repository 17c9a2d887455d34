"""Messages, handlers and places to keep offsets, as tests of consumers need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rocketpipe.client.consumer.handling.handlers import Handlers, handler
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.model import properties as well_known
from rocketpipe.model.host import Host
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.record.codec import encode_record

QUEUE = MessageQueue(topic="orders", broker_name="broker-a", queue_id=0)
RETRIES = MessageQueue(topic="%RETRY%g", broker_name="broker-a", queue_id=0)
HERE = Host.parse("127.0.0.1:10911")


def stored(offset: int, *, queue: MessageQueue = QUEUE, **changes: Any) -> StoredMessage:
    fields: dict[str, Any] = {
        "topic": queue.topic,
        "body": b"body %d" % offset,
        "queue_id": queue.queue_id,
        "queue_offset": QueueOffset(offset),
        "log_offset": LogOffset(offset * 1000),
        "born_ms": 1,
        "born_host": HERE,
        "stored_ms": 2,
        "store_host": HERE,
    }
    return StoredMessage(**(fields | changes))


def message(offset: int, *, queue: MessageQueue = QUEUE, **changes: Any) -> ReceivedMessage:
    return ReceivedMessage(encode_record(stored(offset, queue=queue, **changes)), queue)


def messages(*offsets: int, **changes: Any) -> list[ReceivedMessage]:
    return [message(offset, **changes) for offset in offsets]


def again(offset: int, topic: str, **changes: Any) -> ReceivedMessage:
    """A message of ``topic`` that comes again."""
    text = well_known.encode_bytes({well_known.RETRY_TOPIC: topic})
    return message(offset, queue=RETRIES, raw_properties=text, **changes)


def handlers(handle: Callable[..., Any], *, batch: int | None = None, threads: int = 4) -> Handlers:
    """One handler for everything of the topic ``orders``."""
    made = Handlers(threads, "test")
    made.add(handler("orders", handle, tags=None, sql=None, batch=batch))
    return made


class NotedOffsets:
    """Offsets in memory, which is all that workers know of an offset store."""

    def __init__(self) -> None:
        self.by_queue: dict[MessageQueue, QueueOffset] = {}
        self.saved: dict[MessageQueue, QueueOffset] = {}
        self.frozen: set[MessageQueue] = set()

    async def read(self, queue: MessageQueue) -> QueueOffset | None:
        return self.saved.get(queue)

    def update(
        self, queue: MessageQueue, offset: QueueOffset, *, increase_only: bool = True
    ) -> None:
        before = self.by_queue.get(queue, -1)
        if queue not in self.frozen and (offset > before or not increase_only):
            self.by_queue[queue] = offset

    def noted(self, queue: MessageQueue) -> QueueOffset | None:
        return self.by_queue.get(queue)

    async def persist(self, queues: Iterable[MessageQueue]) -> None:
        for queue in queues:
            if queue in self.by_queue:
                self.saved[queue] = self.by_queue[queue]

    def forget(self, queue: MessageQueue) -> None:
        self.by_queue.pop(queue, None)
        self.frozen.discard(queue)

    def freeze(self, queue: MessageQueue, offset: QueueOffset) -> None:
        self.by_queue[queue] = offset
        self.frozen.add(queue)


class NotedReturns:
    """Notes what is sent back, and takes it or not."""

    def __init__(self, *, takes: bool = True, max_retries: int = 16) -> None:
        self.takes = takes
        self.max_retries = max_retries
        self.sent_back: list[tuple[int, int]] = []
        self.resent: list[int] = []

    async def is_spent(self, message: ReceivedMessage) -> bool:
        return message.reconsume_times >= self.max_retries

    async def send_back(self, message: ReceivedMessage, delay_level: int = 0) -> bool:
        self.sent_back.append((message.queue_offset, delay_level))
        return self.takes

    async def resend(self, message: ReceivedMessage, delay_level: int = 0) -> bool:
        self.resent.append(message.queue_offset)
        return self.takes
