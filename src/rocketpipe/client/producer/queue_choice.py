"""Which queue a message goes to."""

from __future__ import annotations

import random
from collections.abc import Sequence

from rocketpipe.model.route import MessageQueue


class RoundRobin:
    """Goes round a topic's queues evenly, from a random start so that producers spread out."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._turns: dict[str, int] = {}

    def next(self, topic: str, queues: Sequence[MessageQueue]) -> MessageQueue:
        """The queue whose turn it is; ``queues`` are those that may be written now."""
        turn = self._turns.get(topic)
        if turn is None:
            turn = self._chance.randrange(1 << 16)
        self._turns[topic] = turn + 1
        return queues[turn % len(queues)]
