"""What is left of deleted topics, and of topics that no table knows: queues and places of groups.

A topic is deleted in the table, with where the log ended then. What its queues have of before is
cut off: all of a queue, or its beginning where a new topic of that name has the rest.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.store.errors import QueueDamaged
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.queues.entries import QUEUE_ENTRY


def forget_places(topics: TopicTable, offsets: OffsetTable) -> None:
    """Have no group's place in a topic that was deleted and is not there again."""
    gone = set(topics.deleted())
    for name in {topic for _, topic in offsets.pairs() if topic in gone}:
        offsets.forget_topic(name)


def cut_off(store: MessageStore, topics: TopicTable, names: Container[str] | None = None) -> int:
    """Have no queue of these deleted topics, or of all; gives how many are gone.

    They are gone for good once the derived files are synced.

    Raises:
        DiskError: A queue cannot be read.
        StoreFailed: A damaged one cannot be put right.
    """
    removed = 0
    for name, queue_id in list(store.queues()):
        if names is not None and name not in names:
            continue
        end = store.max_offset(name, queue_id)
        # Of all the others nothing is read: there may be many.
        if topics.was_deleted_since(name, 0) and store.min_offset(name, queue_id) < end:
            try:
                removed += _cut_off(store, topics, name, queue_id)
            except QueueDamaged as damage:
                store.derived.repairs.mend_now((name, queue_id), damage)
                removed += _cut_off(store, topics, name, queue_id)
    return removed


def _cut_off(store: MessageStore, topics: TopicTable, name: str, queue_id: int) -> bool:
    """Do without a queue of a deleted topic, or with what is of that in the queue of a new one.

    That may be there again where the queue was written from the log.
    """
    queues = store.derived.queues
    last = QueueOffset(store.max_offset(name, queue_id) - 1)
    entry, queue = queues.entries(name, queue_id, last, 1), queues.queue(name, queue_id)
    if entry and topics.was_deleted_since(name, QUEUE_ENTRY.unpack(entry)[0]):
        queues.delete(name, queue_id)
        return True
    if queue is not None:
        queue.set_min(topics.deleted_to(name))
    return False


def queues_in_use(store: MessageStore, *, every: bool = False) -> Iterator[tuple[str, int]]:
    """Queues with messages: one that has none left may be of a topic that was deleted.

    ``every`` gives those too that still have a file, where nothing else tells of topics.
    """
    for topic, queue_id in store.queues():
        queue = store.derived.queues.queue(topic, queue_id)
        if queue is not None and (queue.min_offset < queue.max_offset or (every and queue.sums())):
            yield topic, queue_id
