"""Which topics have how many queues on the brokers of which name.

Each entry is held twice: as its broker told it, and as clients are shown it. An operator who takes
the right to write from a broker changes what is shown, and that stands until the broker has
something new to tell about the topic, or comes anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from rocketpipe.model.route import BrokerQueues, QueueMapping
from rocketpipe.model.topic import Perm


@dataclass(slots=True)
class HeldQueues:
    """The queues of one topic on the brokers of one name."""

    told: BrokerQueues
    shown: BrokerQueues
    #: Of a static topic only.
    mapping: QueueMapping | None = None


class QueueTable:
    """Topics, and on which brokers their queues are."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, HeldQueues]] = {}
        self._brokers: dict[str, set[str]] = {}
        #: How many entries there are: topics, once for each broker name.
        self.count = 0

    def of(self, topic: str) -> Mapping[str, HeldQueues]:
        """Give the entries of a topic by broker name; none, if nobody has it."""
        return self._topics.get(topic, {})

    def topics(self) -> frozenset[str]:
        """Name every topic."""
        return frozenset(self._topics)

    def topics_on(self, broker: str) -> frozenset[str]:
        """Name the topics of the brokers of one name."""
        return frozenset(self._brokers.get(broker, ()))

    def flagged(self, fits: Callable[[int], bool]) -> frozenset[str]:
        """Name the topics whose system flag fits; the first broker's word counts."""
        return frozenset(
            topic
            for topic, held in self._topics.items()
            if fits(held[min(held)].shown.topic_sys_flag)
        )

    def lacking(self, broker: str, topics: Iterable[str]) -> int:
        """Count how many of these topics would be new on a broker."""
        there = self._brokers.get(broker, set())
        return sum(topic not in there for topic in topics)

    def tell(self, topic: str, queues: BrokerQueues, *, afresh: bool = False) -> None:
        """Take a broker's word; what it told before changes nothing, unless it comes afresh."""
        held = self._topics.setdefault(topic, {}).get(queues.broker_name)
        if held is None:
            self._topics[topic][queues.broker_name] = HeldQueues(queues, queues)
            self._brokers.setdefault(queues.broker_name, set()).add(topic)
            self.count += 1
        elif afresh or held.told != queues:
            held.told = held.shown = queues

    def show_perm(self, broker: str, change: Callable[[int], int]) -> int:
        """Change what clients may do with the topics of a broker; counts the topics."""
        topics = self._brokers.get(broker, set())
        for topic in topics:
            held = self._topics[topic][broker]
            held.shown = _with_perm(held.shown, change(held.shown.perm))
        return len(topics)

    def end_writing(self, broker: str) -> None:
        """Nobody of that name takes writes any more; the next one who does says so."""
        for topic in self._brokers.get(broker, ()):
            held = self._topics[topic][broker]
            held.told = held.shown = _with_perm(held.shown, held.shown.perm & ~Perm.WRITE)

    def drop(self, topic: str, broker: str) -> bool:
        """Let go of one entry; tells whether there was one."""
        held = self._topics.get(topic, {})
        if held.pop(broker, None) is None:
            return False
        self.count -= 1
        if not held:
            del self._topics[topic]
        on_broker = self._brokers[broker]
        on_broker.remove(topic)
        if not on_broker:
            del self._brokers[broker]
        return True

    def drop_broker(self, broker: str) -> None:
        """Let go of everything that brokers of this name have."""
        for topic in self.topics_on(broker):
            self.drop(topic, broker)


def _with_perm(queues: BrokerQueues, perm: int) -> BrokerQueues:
    return msgspec.structs.replace(queues, perm=int(perm))
