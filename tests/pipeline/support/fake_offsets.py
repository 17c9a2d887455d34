"""Queues in memory, for planners: what they have, who answers, and what was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.planning.offset_reader import Ends, UnknownTopic
from rocketpipe.pipeline.planning.ranges import QueueRange


def queue(name: str) -> MessageQueue:
    """``queue("orders/broker-a/0")``"""
    topic, broker, number = name.split("/")
    return MessageQueue(topic=topic, broker_name=broker, queue_id=int(number))


class FakePlaces:
    """``FakePlaces({"orders/a/0": (0, 10)})``: change ``held`` as a broker would."""

    def __init__(self, held: Mapping[str, tuple[int, int]], message_bytes: int = 100) -> None:
        self.held = {queue(name): ends for name, ends in held.items()}
        self.silent: set[str] = set()
        """Brokers out of reach."""
        self.message_bytes = message_bytes
        self.born_ms: dict[MessageQueue, int] = {}
        """When message 0 was stored, if not at 0 s."""
        self.gone: set[str] = set()
        """Topics that brokers do not have, though NameServers still know them."""
        self.measured: dict[MessageQueue, int] = {}
        """Of how many messages the size was asked for last."""
        self.left: dict[MessageQueue, QueueOffset] = {}
        """Where the queues of brokers ended that are gone."""
        self.hidden: set[MessageQueue] = set()
        """Queues that may not be read any more."""
        self.is_closed = False

    def grow(self, name: str, count: int) -> None:
        least, greatest = self.held[queue(name)]
        self.held[queue(name)] = (least, greatest + count)

    def topics(self) -> frozenset[str]:
        return frozenset(each.topic for each in self.held)

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        found = sorted(each for each in self.held.keys() - self.hidden if each.topic == topic)
        if not found:
            raise UnknownTopic(topic, "nobody", "create it first")
        return found

    def ends(self, queues: Sequence[MessageQueue]) -> Mapping[MessageQueue, Ends]:
        return {
            each: (QueueOffset(self.held[each][0]), QueueOffset(self.held[each][1]))
            for each in queues
            if each.broker_name not in self.silent
        }

    def oldest_ms(self, queues: Sequence[MessageQueue]) -> Mapping[MessageQueue, int]:
        return {
            each: self.born_ms.get(each, 0) + 1000 * self.held[each][0]
            for each in queues
            if each.broker_name not in self.silent and self.held[each][0] < self.held[each][1]
        }

    def deleted(self, queues: Sequence[MessageQueue]) -> frozenset[MessageQueue]:
        return frozenset(each for each in queues if each.topic in self.gone)

    def drain(self, broker: str) -> None:
        """Have a broker leave for good."""
        for each in [each for each in self.held if each.broker_name == broker]:
            self.left[each] = QueueOffset(self.held.pop(each)[1])

    def drained(self, queues: Sequence[MessageQueue]) -> Mapping[MessageQueue, QueueOffset]:
        return {each: self.left[each] for each in queues if each in self.left}

    def at_time(self, queue: MessageQueue, timestamp_ms: int) -> QueueOffset:
        """Message n is stored at n seconds."""
        least, greatest = self.held[queue]
        return QueueOffset(min(greatest, max(least, -(-timestamp_ms // 1000))))

    def sizes(self, ranges: Sequence[QueueRange]) -> Mapping[MessageQueue, int]:
        self.measured = {each.queue: each.count for each in ranges}
        return {each.queue: each.count * self.message_bytes for each in ranges}

    def addresses(self) -> Mapping[str, str]:
        return {each.broker_name: f"{each.broker_name}:10911" for each in self.held}

    def close(self) -> None:
        self.is_closed = True
