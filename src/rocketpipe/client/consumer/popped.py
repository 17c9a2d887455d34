"""A message that was popped: as it is received, and with the receipt that it is acknowledged by."""

from __future__ import annotations

from collections import defaultdict

from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.errors import HeaderError, InvalidName
from rocketpipe.model import properties as well_known
from rocketpipe.model.ids import ReceiptHandle, RetryKind
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.requests.pop_offsets import (
    PoppedMessage as Place,
)
from rocketpipe.protocol.requests.pop_offsets import (
    PoppedQueue,
    read_message_offsets,
    read_order_counts,
    read_start_offsets,
)
from rocketpipe.protocol.requests.popping import PopMessageReply
from rocketpipe.record.codec import RecordView, size_at


class PoppedMessage(ReceivedMessage):
    """One message that is hidden from others until it is acknowledged, or its time is over."""

    __slots__ = ("_attempts", "_topic", "handle", "hidden_until_ms")

    def __init__(
        self, record: bytes, queue: MessageQueue, handle: ReceiptHandle, attempts: int | None
    ) -> None:
        """Take a whole record; ``attempts`` is how often it was popped before, if in order.

        Raises:
            RecordError: If it is no whole record, or its lengths do not add up.
        """
        super().__init__(record, queue)
        self._topic = queue.topic
        self._attempts = attempts
        #: What it is acknowledged by; another one once it was hidden for longer.
        self.handle = handle
        #: How long it is this consumer's, on the monotonic clock of who received it: the broker's
        #: wall clock may be any time off. None where nobody took the time.
        self.hidden_until_ms: int | None = None

    @property
    def topic(self) -> str:
        """The topic it was sent to, also when it comes again."""
        return self._topic

    @property
    def reconsume_times(self) -> int:
        """How often it was received before and not acknowledged."""
        return super().reconsume_times if self._attempts is None else self._attempts

    @property
    def visible_at_ms(self) -> int:
        """When somebody may get it again, by the broker's clock."""
        return self.handle.visible_at_ms


def popped(reply: PopMessageReply, topic: str, broker: str) -> list[PoppedMessage]:
    """Take the messages out of a pop's answer, each with its receipt.

    Raises:
        HeaderError: If the answer does not say where they are from.
        RecordError: If something in it is no whole record.
    """
    starts = read_start_offsets(reply.start_offset_info or "")
    taken = read_message_offsets(reply.msg_offset_info or "")
    counts = read_order_counts(reply.order_count_info or "")
    found: list[PoppedMessage] = []
    passed: defaultdict[PoppedQueue, int] = defaultdict(int)
    data = reply.messages
    at = 0
    while at < len(data):
        size = size_at(data, at, len(data))
        record = bytes(data[at : at + size])
        at += size
        view = RecordView(record)
        own = _own_handle(view)
        kind = RetryKind.of(view.topic) if own is None else own.retry
        queue = PoppedQueue(int(kind), view.queue_id)
        index = passed[queue]
        passed[queue] += 1
        if own is None:
            own = _handle_of(reply, queue, starts, taken, index, broker)
        place = Place(queue, QueueOffset(own.queue_offset or 0))
        attempts = counts.get(place, counts.get(queue)) if counts else None
        held = MessageQueue(topic=topic, broker_name=broker, queue_id=view.queue_id)
        found.append(PoppedMessage(record, held, own, attempts))
    return found


def _own_handle(view: RecordView) -> ReceiptHandle | None:
    """The receipt that a broker put into a message that comes again."""
    text = view.properties.get(well_known.POP_CK)
    if text is None:
        return None
    try:
        return ReceiptHandle.parse(text)
    except InvalidName:
        return None


def _handle_of(
    reply: PopMessageReply,
    queue: PoppedQueue,
    starts: dict[PoppedQueue, QueueOffset],
    taken: dict[PoppedQueue, list[QueueOffset]],
    index: int,
    broker: str,
) -> ReceiptHandle:
    offsets = taken.get(queue, [])
    if queue not in starts or index >= len(offsets):
        raise HeaderError(f"a pop does not tell the offset of message {index} of {queue}")
    return ReceiptHandle(
        start_offset=starts[queue],
        pop_ms=reply.pop_time,
        invisible_ms=reply.invisible_time,
        revive_queue_id=reply.revive_qid,
        retry=RetryKind(queue.retry),
        broker=broker,
        queue_id=queue.queue_id,
        queue_offset=offsets[index],
    )
