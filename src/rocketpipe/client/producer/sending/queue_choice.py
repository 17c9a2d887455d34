"""Which queue a message goes to, when its sender leaves that open.

Queues are taken in turn, by one counter for each producer and topic. Java keeps a counter for each
thread; with a task for each send that would be a random choice instead of an even one.

    plain    the next queue whose broker is not the one that failed last, or else the next queue
    4.9      the next queue whose broker is available; or else a queue of one of the better
             brokers; or else the next queue
    5.x      the next queue whose broker is available and did not fail last; or else one whose
             broker is reachable and did not fail last; or else the next queue
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from rocketpipe.client.faults import FaultTable, Variant
from rocketpipe.clock import Clock
from rocketpipe.model.route import MessageQueue

MAX_TOPICS: Final = 4096
_STARTS: Final = 1 << 16


class RoundRobin:
    """Goes round a topic's queues evenly, from a random start so that producers spread out."""

    def __init__(self, chance: random.Random, *, max_topics: int = MAX_TOPICS) -> None:
        self._chance = chance
        self._max_topics = max_topics
        self._turns: dict[str, int] = {}

    def next(self, topic: str, queues: Sequence[MessageQueue]) -> MessageQueue:
        """The queue whose turn it is; ``queues`` are those that may be written now."""
        return queues[self.turn(topic) % len(queues)]

    def next_where(
        self,
        topic: str,
        queues: Sequence[MessageQueue],
        fits: Callable[[str], bool],
    ) -> MessageQueue | None:
        """The next queue whose broker ``fits``, within one full round."""
        for _ in queues:
            queue = self.next(topic, queues)
            if fits(queue.broker_name):
                return queue
        return None

    def turn(self, topic: str) -> int:
        """The counter of a topic, which then counts on."""
        turn = self._turns.get(topic)
        if turn is None:
            while len(self._turns) >= self._max_topics:
                del self._turns[next(iter(self._turns))]
            turn = self._chance.randrange(_STARTS)
        self._turns[topic] = turn + 1
        return turn

    def restart(self, topic: str) -> None:
        """Go on from another random place."""
        self._turns.pop(topic, None)


class QueueChoice:
    """Chooses queues for one producer, and learns from how sends went."""

    def __init__(
        self, avoid_slow: Variant | bool | None, clock: Clock, chance: random.Random
    ) -> None:
        """Take which rules slow brokers are avoided by; True is 5.x's.

        With none of them, only the last failure counts.
        """
        self._variant = variant = Variant.V5 if avoid_slow is True else avoid_slow or None
        self._turns = RoundRobin(chance)
        #: The counter of a topic, which then counts on: ``choose`` while nothing has failed.
        self.turn: Final = self._turns.turn
        self.faults = FaultTable(variant.value, clock, chance) if variant is not None else None

    def choose(
        self, topic: str, queues: Sequence[MessageQueue], failed_last: str | None = None
    ) -> MessageQueue:
        """The queue for the next attempt; ``failed_last`` is the broker of the attempt before."""
        assert queues, "a topic without queues has no route"
        faults = self.faults
        if faults is None:
            if failed_last is None:
                return self._turns.next(topic, queues)
            return self._any_but(topic, queues, failed_last)
        if self._variant is Variant.V4:
            return self._choose_v4(topic, queues, faults)
        return self._choose_v5(topic, queues, faults, failed_last)

    def note(
        self, broker: str, latency_ms: int, *, failed: bool = False, reachable: bool = True
    ) -> None:
        """Remember how an attempt went, if slow brokers are avoided."""
        if self.faults is not None:
            self.faults.note(broker, latency_ms, failed=failed, reachable=reachable)

    def _any_but(
        self, topic: str, queues: Sequence[MessageQueue], failed_last: str
    ) -> MessageQueue:
        found = self._turns.next_where(topic, queues, lambda broker: broker != failed_last)
        return found or self._turns.next(topic, queues)

    def _choose_v4(
        self, topic: str, queues: Sequence[MessageQueue], faults: FaultTable
    ) -> MessageQueue:
        found = self._turns.next_where(topic, queues, faults.is_available)
        if found is not None:
            return found
        broker = faults.pick_at_least_one()
        if broker is not None:
            held = [queue for queue in queues if queue.broker_name == broker]
            if held:
                return self._turns.next(topic, held)
            faults.forget(broker)
        return self._turns.next(topic, queues)

    def _choose_v5(
        self,
        topic: str,
        queues: Sequence[MessageQueue],
        faults: FaultTable,
        failed_last: str | None,
    ) -> MessageQueue:
        if failed_last is not None:
            self._turns.restart(topic)

        def available(broker: str) -> bool:
            return broker != failed_last and faults.is_available(broker)

        def reachable(broker: str) -> bool:
            return broker != failed_last and faults.is_reachable(broker)

        return (
            self._turns.next_where(topic, queues, available)
            or self._turns.next_where(topic, queues, reachable)
            or self._turns.next(topic, queues)
        )
