"""Which queue a message goes to: the same for all of a message group, any other one in turn."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from rocketpipe.model.route import MessageQueue
from rocketpipe.record.hot import java_hash

#: So many topics have a turn of their own.
_MOST_TURNS: Final = 4096
_MASK: Final = (1 << 64) - 1
_MULTIPLIER: Final = 2862933555777941757


def bucket(value: int, buckets: int) -> int:
    """One of so many buckets, by a jump hash: with one more, few values move.

    It is the one that RocketMQ's proxy uses (Guava's), so that a message group stays in its queue
    whichever of the two takes it.
    """
    assert buckets > 0
    state, candidate = value & _MASK, 0
    while True:
        state = (_MULTIPLIER * state + 1) & _MASK
        step = ((state >> 33) + 1) / (1 << 31)
        following = int((candidate + 1) / step)
        if not 0 <= following < buckets:
            return candidate
        candidate = following


class Queues:
    """Chooses queues."""

    def __init__(self) -> None:
        self._turns: OrderedDict[str, int] = OrderedDict()

    def choose(self, topic: str, queues: Sequence[MessageQueue], group: str) -> MessageQueue:
        """The queue of a message group, or the next one where there is none."""
        if group:
            return queues[bucket(java_hash(group), len(queues))]
        turn = self._turns.pop(topic, -1) + 1
        self._turns[topic] = turn
        if len(self._turns) > _MOST_TURNS:
            self._turns.popitem(last=False)
        return queues[turn % len(queues)]
