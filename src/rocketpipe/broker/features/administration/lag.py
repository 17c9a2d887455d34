"""How far groups have come, held against what the queues have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from rocketpipe.broker.delivery.retry import begun_retries
from rocketpipe.broker.stats import Stats
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.errors import RecordError, StoreError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.requests.progress import ConsumeStats, QueueProgress, QueueTimeSpan
from rocketpipe.record.codec import view_records
from rocketpipe.store.message_store import MessageStore

#: Each queue may cost a look into the log, so others have their turn in between.
_QUEUES_A_TURN: Final = 64


class Progress:
    """Puts committed offsets beside the ends of queues."""

    def __init__(
        self,
        store: MessageStore,
        topics: TopicTable,
        offsets: OffsetTable,
        clients: ClientTable,
        stats: Stats,
        broker_name: str,
    ) -> None:
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._clients = clients
        self._stats = stats
        self._broker_name = broker_name

    def topics_of(self, group: str) -> list[str]:
        """The topics that a group has offsets of, in order."""
        return sorted(self._offsets.topics_of(group))

    def to_read(self, group: str) -> list[str]:
        """The same, and its retries, where they wait before it has a place there."""
        retries = begun_retries(group, self._topics, self._store)
        return sorted({*self._offsets.topics_of(group), *([retries] if retries else [])})

    def groups_of(self, topic: str) -> set[str]:
        """The groups that subscribe to a topic now, or have offsets of it."""
        online = {
            name
            for name in self._clients.consumer_groups()
            if (group := self._clients.consumer_group(name)) and group.subscription(topic)
        }
        return online | set(self._offsets.groups_of(topic))

    def wants(self, group: str, topic: str) -> bool:
        """Whether a group has not been seen to have given a topic up: it has no member, or one."""
        members = self._clients.consumer_group(group)
        return members is None or not members.subscriptions() or bool(members.subscription(topic))

    async def of_group(self, group: str, topics: Iterable[str]) -> ConsumeStats:
        """How far a group has come in these topics; those that are not there are left out."""
        queues: dict[MessageQueue, QueueProgress] = {}
        rate = 0.0
        for name in topics:
            topic = self._topics.get(name)
            if topic is None:
                continue
            rate += self._stats.group_rate(group, name)
            for queue_id in range(topic.read_queues):
                queues[self._queue(topic, queue_id)] = self._progress(group, name, queue_id)
                if len(queues) % _QUEUES_A_TURN == 0:
                    await asyncio.sleep(0)
        return ConsumeStats(consume_tps=rate, queues=queues)

    async def spans(self, group: str, topic: TopicSettings, now_ms: int) -> list[QueueTimeSpan]:
        """From when to when each queue of a topic has messages, and where a group is between."""
        found = []
        for queue_id in range(max(topic.read_queues, topic.write_queues)):
            found.append(self._span(group, topic, queue_id, now_ms))
            if len(found) % _QUEUES_A_TURN == 0:
                await asyncio.sleep(0)
        return found

    def _progress(self, group: str, topic: str, queue_id: int) -> QueueProgress:
        end = self._store.max_offset(topic, queue_id)
        committed = self._offsets.committed(group, topic, queue_id) or QueueOffset(0)
        return QueueProgress(
            broker_offset=end,
            consumer_offset=committed,
            # Apart from what it commits nobody says what a group has read.
            pull_offset=committed,
            last_timestamp=self._stored_ms(topic, queue_id, committed - 1) or 0,
        )

    def _span(self, group: str, topic: TopicSettings, queue_id: int, now_ms: int) -> QueueTimeSpan:
        name = topic.name
        end = self._store.max_offset(name, queue_id)
        oldest = self._stored_ms(name, queue_id, self._store.min_offset(name, queue_id))
        newest = self._stored_ms(name, queue_id, end - 1)
        committed = self._offsets.committed(group, name, queue_id) or QueueOffset(0)
        consumed = self._stored_ms(name, queue_id, committed - 1) if committed else oldest
        following = self._stored_ms(name, queue_id, committed) if committed < end else None
        return QueueTimeSpan(
            message_queue=self._queue(topic, queue_id),
            min_time_stamp=-1 if oldest is None else oldest,
            max_time_stamp=-1 if newest is None else newest,
            consume_time_stamp=-1 if consumed is None else consumed,
            delay_time=0 if following is None else max(0, now_ms - following),
        )

    def _stored_ms(self, topic: str, queue_id: int, offset: int) -> int | None:
        """When the message at an offset was stored; None if it is not there."""
        if not self._store.min_offset(topic, queue_id) <= offset:
            return None
        if offset >= self._store.max_offset(topic, queue_id):
            return None
        try:
            found = self._store.read(topic, queue_id, QueueOffset(offset), max_count=1)
            return next((record.stored_ms for record in view_records(found.records)), None)
        except (StoreError, RecordError):
            return None  # where it stands is known all the same

    def _queue(self, topic: TopicSettings, queue_id: int) -> MessageQueue:
        return MessageQueue(topic=topic.name, broker_name=self._broker_name, queue_id=queue_id)
