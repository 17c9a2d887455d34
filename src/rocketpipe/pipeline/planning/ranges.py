"""Which part of which queues a task reads; planned from offsets and sizes alone.

A task costs tens of milliseconds whatever it reads, so small queues share one and only what is
large is split:

    a range of more than ``max_bytes``     into equal parts below that
    ranges of less than a quarter of it    together, in the order of their queues

``min_partitions`` makes both limits smaller until there are so many. All of it is integers, and
nothing but the arguments enters: the same batch is planned the same way after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue

#: Ranges share a task up to this part of what one may hold: a split one keeps its task alone.
SHARED_BELOW: Final = 4

#: What a message is taken for where nothing of its topic was measured.
MESSAGE_BYTES: Final = 1024

#: Of so many messages planners ask for the size: fewer are not worth a question.
MEASURED_FROM: Final = 1000

#: Of the queues of a topic that have fewer, but together so many, a few are asked for.
MEASURED_OF_MANY: Final = 8


@dataclass(frozen=True)
class QueueRange:
    """A run of offsets in one queue, ``end`` not included."""

    queue: MessageQueue
    start: QueueOffset
    end: QueueOffset

    @property
    def count(self) -> int:
        """How many offsets it has."""
        return self.end - self.start


@dataclass(frozen=True)
class ReadPartition:
    """What one task reads: ranges, in their order, and where their brokers are."""

    ranges: tuple[QueueRange, ...]
    #: Broker name to address; empty when the log is read.
    addresses: Mapping[str, str]


def to_measure(ranges: Iterable[QueueRange]) -> list[QueueRange]:
    """Those whose bytes are worth a question, each for itself or for all that are like it."""
    long: list[QueueRange] = []
    short: dict[str, list[QueueRange]] = {}
    for each in ranges:
        if each.count >= MEASURED_FROM:
            long.append(each)
        else:
            short.setdefault(each.queue.topic, []).append(each)
    for of_topic in short.values():
        if sum(each.count for each in of_topic) >= MEASURED_FROM:
            of_topic.sort(key=lambda each: (-each.count, each.queue))
            long += of_topic[:MEASURED_OF_MANY]
    return long


def plan(
    ranges: Iterable[QueueRange],
    sizes: Mapping[MessageQueue, int],
    *,
    max_bytes: int,
    min_partitions: int = 1,
) -> list[tuple[QueueRange, ...]]:
    """What each task reads: every offset of the ranges once, in the order of their queues.

    ``sizes`` has the bytes of a range by its queue; one that is not there is guessed by those of
    its topic.
    """
    ordered = sorted(
        (each for each in ranges if each.count > 0), key=lambda each: (each.queue, each.start)
    )
    weights = _weights(ordered, sizes)
    most = max(1, min(max_bytes, sum(weights) // max(1, min_partitions)))
    shared = max(1, min(most, max_bytes // SHARED_BELOW))
    pieces = [
        piece
        for whole, weight in zip(ordered, weights, strict=True)
        for piece in _split(whole, weight, most)
    ]
    return list(_packed(pieces, shared))


def abreast(ranges: Sequence[QueueRange], most: int) -> Iterator[QueueRange]:
    """The same offsets, cut so that queues take turns of at most about so many messages.

    What was stored at about the same time comes together then, and is read from the log at once.
    """
    turns = -(-sum(each.count for each in ranges) // max(1, most))
    for turn in range(turns):
        for each in ranges:
            start = each.start + each.count * turn // turns
            end = each.start + each.count * (turn + 1) // turns
            if start < end:
                yield QueueRange(each.queue, QueueOffset(start), QueueOffset(end))


def _weights(ranges: Sequence[QueueRange], sizes: Mapping[MessageQueue, int]) -> list[int]:
    """The bytes of each range, as far as they are known."""
    measured: dict[str, tuple[int, int]] = {}
    for each in ranges:
        if each.queue in sizes:
            count, size = measured.get(each.queue.topic, (0, 0))
            measured[each.queue.topic] = (count + each.count, size + sizes[each.queue])
    weights = []
    for each in ranges:
        count, size = measured.get(each.queue.topic, (1, MESSAGE_BYTES))
        weights.append(max(1, sizes.get(each.queue, each.count * size // count)))
    return weights


def _split(whole: QueueRange, weight: int, most: int) -> Iterator[tuple[QueueRange, int]]:
    count = min(whole.count, -(-weight // most))
    for number in range(count):
        start = whole.start + whole.count * number // count
        end = whole.start + whole.count * (number + 1) // count
        yield (
            QueueRange(whole.queue, QueueOffset(start), QueueOffset(end)),
            weight * (number + 1) // count - weight * number // count,
        )


def _packed(
    pieces: Iterable[tuple[QueueRange, int]], shared: int
) -> Iterator[tuple[QueueRange, ...]]:
    held: list[QueueRange] = []
    held_bytes = 0
    for piece, weight in pieces:
        if held and held_bytes + weight > shared:
            yield tuple(held)
            held, held_bytes = [], 0
        held.append(piece)
        held_bytes += weight
    if held:
        yield tuple(held)
