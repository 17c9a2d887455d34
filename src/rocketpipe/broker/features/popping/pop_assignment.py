"""Who of a group reads which queues, where its members ask the broker.

AVG             neighbouring queues each, the first members one more
AVG_BY_CIRCLE   one queue in turn
by pop          the queues of the next ``share`` members too, or every broker's any queue
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.requests.popping import ANY_QUEUE

#: Given a member's place, how many there are, and all queues.
Strategy = Callable[[int, int, Sequence[MessageQueue]], list[MessageQueue]]


def average(index: int, members: int, queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    """Neighbouring queues, as even as can be."""
    each, more = divmod(len(queues), members)
    start = index * each + min(index, more)
    return list(queues[start : start + each + (index < more)])


def by_circle(index: int, members: int, queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    """Every so manieth queue."""
    return list(queues[index::members])


STRATEGIES: Final[dict[str, Strategy]] = {"AVG": average, "AVG_BY_CIRCLE": by_circle}


def shared(
    strategy: Strategy, member: str, members: Sequence[str], queues: Sequence[MessageQueue]
) -> list[MessageQueue]:
    """The queues that one member pulls; none if it is no member."""
    if member not in members:
        return []
    return strategy(members.index(member), len(members), queues)


def shared_by_pop(
    strategy: Strategy,
    member: str,
    members: Sequence[str],
    queues: Sequence[MessageQueue],
    share: int,
) -> list[MessageQueue]:
    """The queues that one member pops, beside others."""
    if share <= 0 or share >= len(members) - 1:
        brokers = dict.fromkeys((queue.topic, queue.broker_name) for queue in queues)
        return [
            MessageQueue(topic=topic, broker_name=broker, queue_id=ANY_QUEUE)
            for topic, broker in brokers
        ]
    if member not in members:
        return []
    index = members.index(member)
    if len(members) > len(queues):
        return [queues[index % len(queues)]] if queues else []
    found: dict[MessageQueue, None] = {}
    for step in range(share + 1):
        at = (index + step) % len(members)
        found.update(dict.fromkeys(strategy(at, len(members), queues)))
    return list(found)
