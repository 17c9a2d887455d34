"""A message as a handler gets it: the stored record, and the queue it was pulled from.

A message that comes again is stored in ``%RETRY%group``, whatever topic it was sent to. Handlers
see the topic it was sent to; ``queue`` says where it really lies.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketpipe.model import properties as well_known
from rocketpipe.model.names import is_retry_topic
from rocketpipe.model.route import MessageQueue
from rocketpipe.record.codec import RecordView, size_at
from rocketpipe.record.hot import Bytes


class ReceivedMessage(RecordView):
    """One message in a consumer's hands; it holds its own bytes, not the whole answer's."""

    __slots__ = ("_tried", "queue")

    def __init__(self, record: bytes, queue: MessageQueue) -> None:
        """Take a whole record that was pulled from ``queue``.

        Raises:
            RecordError: If it is no whole record, or its lengths do not add up.
        """
        super().__init__(record)
        #: Where it was pulled from: the retry topic's queue, if it comes again.
        self.queue = queue
        self._tried = 0

    @property
    def topic(self) -> str:
        """The topic it was sent to, also when it comes again from the retry topic."""
        if is_retry_topic(self.queue.topic):
            return self.properties.get(well_known.RETRY_TOPIC) or self.queue.topic
        return self.queue.topic

    @property
    def reconsume_times(self) -> int:
        """How often it was tried before: sent back, or tried again by this consumer itself."""
        return int(self._head[12]) + self._tried

    @property
    def body_bytes(self) -> int:
        """The length of the body as stored, which is what flow control counts."""
        return int(self._head[14])

    def tried(self) -> None:
        """Note an attempt that failed and is repeated here, without the broker knowing."""
        self._tried += 1

    def __repr__(self) -> str:
        return (
            f"<{self.topic} {self.message_id} at {self.queue.broker_name}:{self.queue.queue_id}"
            f":{self.queue_offset}>"
        )


def received(answer: Bytes, queue: MessageQueue) -> Iterator[ReceivedMessage]:
    """Take the messages out of a pull's answer, in order.

    Raises:
        RecordError: If something in it is no whole record; what came before it was given.
    """
    at, end = 0, len(answer)
    while at < end:
        size = size_at(answer, at, end)
        yield ReceivedMessage(bytes(answer[at : at + size]), queue)
        at += size
