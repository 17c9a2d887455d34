"""Answers about how far groups have come, which topics they read, and what queues hold."""

from __future__ import annotations

import asyncio
import struct
from typing import Final

from rocketpipe.broker.features.administration.lag import Progress
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.groups import GroupTable
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.clock import Clock
from rocketpipe.errors import RequestRejected, StoreError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.brokers import (
    BrokerConsumeStatsReply,
    GetBrokerConsumeStats,
    GroupsConsumeStats,
)
from rocketpipe.protocol.requests.progress import (
    ConsumeStats,
    ConsumeStatsReply,
    CorrectionOffsets,
    CorrectionOffsetsReply,
    GetConsumeStats,
    GroupNames,
    GroupNamesReply,
    GroupSubscription,
    GroupSubscriptionReply,
    QueryConsumeQueue,
    QueryConsumeTimeSpan,
    QueryCorrectionOffset,
    QueryGroupsOfTopic,
    QuerySubscriptionOfGroup,
    QueryTopicsOfGroup,
    QueueEntries,
    QueueEntriesReply,
    QueueEntry,
    TimeSpans,
    TimeSpansReply,
)
from rocketpipe.protocol.requests.routes import TopicNames, TopicNamesReply
from rocketpipe.remoting.router import Call, handles
from rocketpipe.store.message_store import MessageStore

MAX_ENTRIES: Final = 1000
_ENTRY: Final = struct.Struct(">qiq")
_NO_OFFSET: Final = (1 << 63) - 1


class ProgressHandlers:
    """Tells operators where groups are."""

    def __init__(
        self,
        progress: Progress,
        topics: TopicTable,
        groups: GroupTable,
        clients: ClientTable,
        clock: Clock,
        *,
        address: str,
    ) -> None:
        self._progress = progress
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._clock = clock
        self._address = address

    @handles(GetConsumeStats)
    async def of_group(self, request: GetConsumeStats, call: Call) -> ConsumeStatsReply:
        """Topics that an online group does not subscribe to are left out, if none is named."""
        group = request.consumer_group
        named = [name for name in (request.topic_list or "").split(";") if name.strip()]
        if request.topic:
            named = [request.topic]
        topics = named or [
            name for name in self._progress.to_read(group) if self._progress.wants(group, name)
        ]
        return ConsumeStatsReply(stats=await self._progress.of_group(group, topics))

    @handles(GetBrokerConsumeStats)
    async def of_all(self, request: GetBrokerConsumeStats, call: Call) -> BrokerConsumeStatsReply:
        found: list[dict[str, tuple[ConsumeStats, ...]]] = []
        behind = 0
        for group in sorted(self._groups.all()):
            stats = []
            for name in self._progress.to_read(group):
                topic = self._topics.get(name)
                if topic is None or (request.is_order and not topic.ordered):
                    continue
                if not self._progress.wants(group, name):
                    continue
                stats.append(await self._progress.of_group(group, [name]))
            behind += sum(
                each.broker_offset - each.consumer_offset
                for one in stats
                for each in one.queues.values()
            )
            found.append({group: tuple(stats)})
            await asyncio.sleep(0)
        return BrokerConsumeStatsReply(
            stats=GroupsConsumeStats(
                broker_address=self._address, groups=tuple(found), total_diff=behind
            )
        )

    @handles(QueryConsumeTimeSpan)
    async def spans(self, request: QueryConsumeTimeSpan, call: Call) -> TimeSpansReply:
        topic = self._topic(request.topic)
        spans = await self._progress.spans(request.group, topic, self._clock.now_ms())
        return TimeSpansReply(times=TimeSpans(spans=tuple(spans)))

    @handles(QueryGroupsOfTopic)
    async def groups_of(self, request: QueryGroupsOfTopic, call: Call) -> GroupNamesReply:
        groups = frozenset(self._progress.groups_of(request.topic))
        return GroupNamesReply(names=GroupNames(groups=groups))

    @handles(QueryTopicsOfGroup)
    async def topics_of(self, request: QueryTopicsOfGroup, call: Call) -> TopicNamesReply:
        topics = frozenset(self._progress.topics_of(request.group))
        return TopicNamesReply(names=TopicNames(topics=topics))

    @handles(QuerySubscriptionOfGroup)
    async def subscription(
        self, request: QuerySubscriptionOfGroup, call: Call
    ) -> GroupSubscriptionReply:
        members = self._clients.consumer_group(request.group)
        wanted = members.subscription(request.topic) if members and request.topic else None
        return GroupSubscriptionReply(
            found=GroupSubscription(group=request.group, topic=request.topic, subscription=wanted)
        )

    def _topic(self, name: str) -> TopicSettings:
        found = self._topics.get(name)
        if found is None:
            raise RequestRejected(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        return found


class QueueHandlers:
    """Shows what queues hold, and how far the slowest group is."""

    def __init__(
        self,
        store: MessageStore,
        topics: TopicTable,
        offsets: OffsetTable,
        clients: ClientTable,
    ) -> None:
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._clients = clients

    @handles(QueryCorrectionOffset)
    async def correction(
        self, request: QueryCorrectionOffset, call: Call
    ) -> CorrectionOffsetsReply:
        left_out = {name.strip() for name in (request.filter_groups or "").split(",")}
        smallest: dict[int, int] = {}
        compared: dict[int, int] = {}
        topic = request.topic
        for group in self._offsets.groups_of(topic):
            for queue_id, offset in self._offsets.places(group, topic).items():
                if group == request.compare_group:
                    compared[queue_id] = offset
                if group not in left_out and offset >= self._store.min_offset(topic, queue_id):
                    smallest[queue_id] = min(offset, smallest.get(queue_id, offset))
        for queue_id, place in compared.items():
            if smallest.get(queue_id, _NO_OFFSET) > place:
                smallest[queue_id] = _NO_OFFSET
        return CorrectionOffsetsReply(correction=CorrectionOffsets(offsets=smallest))

    @handles(QueryConsumeQueue)
    async def entries(self, request: QueryConsumeQueue, call: Call) -> QueueEntriesReply:
        """Entries as they are stored; with a group, whether its subscription lets each through."""
        topic, queue_id = request.topic or "", request.queue_id
        if self._topics.get(topic) is None:
            raise RequestRejected(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        if request.count < 0 or request.index < 0 or queue_id < 0:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"queueId, index and count count from 0, not {queue_id}, {request.index}, "
                f"{request.count}",
            )
        least = self._store.min_offset(topic, queue_id)
        end = self._store.max_offset(topic, queue_id)
        first = max(request.index, least)
        count = min(request.count, MAX_ENTRIES, max(0, end - first))
        members = self._clients.consumer_group(request.consumer_group or "")
        wanted = members.subscription(topic) if members else None
        try:
            raw = (
                self._store.derived.queues.entries(topic, queue_id, QueueOffset(first), count)
                if count
                else b""
            )
        except StoreError as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
        entries = tuple(
            QueueEntry(
                log_offset=log_offset,
                size=size,
                tags_code=code,
                matches=wanted is None or not wanted.tag_codes or code in wanted.tag_codes,
            )
            for log_offset, size, code in _ENTRY.iter_unpack(raw)
        )
        return QueueEntriesReply(
            found=QueueEntries(
                subscription=wanted,
                entries=entries,
                max_queue_index=end,
                min_queue_index=least,
            )
        )
