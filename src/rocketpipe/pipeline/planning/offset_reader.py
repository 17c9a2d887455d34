"""Where messages are: what a planner asks, whoever answers it, a broker or a log on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from rocketpipe.errors import RocketPipeError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.planning.ranges import QueueRange

#: Of a queue: the offset of its oldest message, and of the one that will come next.
Ends: TypeAlias = tuple[QueueOffset, QueueOffset]


class UnknownTopic(RocketPipeError):
    """A topic that is to be read does not exist; the text says where it was looked for."""

    def __init__(self, topic: str, where: str, hint: str) -> None:
        super().__init__(f"topic {topic!r} is not known to {where}: {hint}")
        self.topic = topic
        self.where = where
        self.hint = hint

    def __reduce__(self) -> tuple[type[UnknownTopic], tuple[str, str, str]]:
        return type(self), (self.topic, self.where, self.hint)


class QueuesUnreachable(RocketPipeError):
    """Queues that are to be read cannot be asked how far they reach."""

    retryable = True

    def __init__(self, queues: Sequence[MessageQueue]) -> None:
        brokers = ", ".join(sorted({repr(queue.broker_name) for queue in queues}))
        topics = ", ".join(sorted({repr(queue.topic) for queue in queues}))
        super().__init__(
            f"{len(queues)} queues of {topics} cannot be read now: no answer from broker "
            f"{brokers}; start it, or look at the log for the reason, then read again"
        )
        self.queues = tuple(queues)

    def __reduce__(self) -> tuple[type[QueuesUnreachable], tuple[tuple[MessageQueue, ...]]]:
        return type(self), (self.queues,)


class OffsetReader(Protocol):
    """Topics, their queues and how far these reach, now."""

    def topics(self) -> frozenset[str]:
        """Every topic that can be read and is not RocketMQ's own."""

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        """The queues of a topic that can be read, in order.

        Raises:
            UnknownTopic: If there is no such topic.
        """

    def ends(self, queues: Sequence[MessageQueue]) -> Mapping[MessageQueue, Ends]:
        """How far these queues reach; one that cannot be asked now is left out."""

    def oldest_ms(self, queues: Sequence[MessageQueue]) -> Mapping[MessageQueue, int]:
        """When the oldest message of each was stored; one of which that is unknown is left out."""

    def deleted(self, queues: Sequence[MessageQueue]) -> frozenset[MessageQueue]:
        """Those whose topic is known to be no more, where they were."""

    def drained(self, queues: Sequence[MessageQueue]) -> Mapping[MessageQueue, QueueOffset]:
        """Where those ended whose broker is gone, since it was drained."""

    def at_time(self, queue: MessageQueue, timestamp_ms: int) -> QueueOffset:
        """The offset of the first message stored at that time or later; the end if none was."""

    def sizes(self, ranges: Sequence[QueueRange]) -> Mapping[MessageQueue, int]:
        """About how many bytes each range has; one of which that cannot be told is left out."""

    def addresses(self) -> Mapping[str, str]:
        """Where each broker is read, by its name; none for a log."""

    def close(self) -> None:
        """Let go of connections and files."""
