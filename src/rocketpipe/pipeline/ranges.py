"""Which part of which queue a task reads; planned from offsets alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue


@dataclass(frozen=True)
class QueueRange(InputPartition):
    """A run of offsets in one queue, ``end`` not included, and who serves it."""

    queue: MessageQueue
    address: str
    start: QueueOffset
    end: QueueOffset


def plan(found: Iterable[QueueRange]) -> list[QueueRange]:
    """The partitions of a read: one for each queue that has messages, in the queues' order."""
    return sorted((each for each in found if each.start < each.end), key=lambda each: each.queue)
