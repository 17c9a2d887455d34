"""A message as a handler gets it: the stored record, and the queue it was pulled from.

A message that comes again is stored in ``%RETRY%group``, whatever topic it was sent to. Handlers
see the topic it was sent to; ``queue`` says where it really lies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rocketpipe.model import properties as well_known
from rocketpipe.model.names import is_retry_topic
from rocketpipe.model.route import MessageQueue
from rocketpipe.record.codec import RecordView
from rocketpipe.record.hot import Bytes, cut

_new: Final = object.__new__


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

    @classmethod
    def _cut_from(cls, answer: Bytes, at: int, end: int, queue: MessageQueue) -> ReceivedMessage:
        """The message whose record is at ``at`` of a pull's answer: the same for less.

        Raises:
            RecordError: If there is no whole record, or its lengths do not add up.
        """
        self = _new(cls)
        (
            self._buffer,
            (
                self._head,
                self._body_at,
                self._topic_at,
                self._topic_end,
                self._properties_at,
                self._stop,
            ),
        ) = cut(answer, at, end)
        self._at = 0
        self._body = None
        self._properties = None
        self.queue = queue
        self._tried = 0
        return self

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
        size: int = self._head[14]
        return size

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
        message = ReceivedMessage._cut_from(answer, at, end, queue)  # noqa: SLF001 - of this file
        at += message.size
        yield message
