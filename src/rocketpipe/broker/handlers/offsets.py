"""Answers about positions: a group's place in a queue, the queue's own ends, and by time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rocketpipe.broker.tables.groups import GroupTable
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.errors import InvalidName, RequestRejected, StoreError
from rocketpipe.model.names import check_group, check_topic
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.offsets import (
    BoundaryType,
    EarliestStoreTimeReply,
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    OffsetReply,
    QueryConsumerOffset,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)
from rocketpipe.remoting.router import Call, handles
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.queues.reader import Boundary


class OffsetHandlers:
    """Keeps and tells offsets."""

    def __init__(
        self,
        store: MessageStore,
        offsets: OffsetTable,
        topics: TopicTable,
        groups: GroupTable,
        saved: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """``saved`` is waited for before a commit is answered, if it is given."""
        self._saved = saved
        self._store = store
        self._offsets = offsets
        self._topics = topics
        self._groups = groups

    # A group's place

    @handles(QueryConsumerOffset)
    async def query(self, request: QueryConsumerOffset, call: Call) -> OffsetReply:
        offset = self._offsets.committed(request.consumer_group, request.topic, request.queue_id)
        if offset is not None:
            return OffsetReply(offset=offset)
        self._check_group_name(request.consumer_group)
        self._check_queue(request.topic, request.queue_id)
        if request.consumer_group in self._offsets.lost_groups:
            return OffsetReply(offset=self._store.min_offset(request.topic, request.queue_id))
        if request.set_zero_if_not_found is False:
            raise RequestRejected(
                ResponseCode.QUERY_NOT_FOUND,
                "Not found, do not set to zero, maybe this group boot first",
            )
        # A queue that still has its first message is begun there. With "not found" a new consumer
        # would ask for the greatest offset and miss what arrives between the two questions.
        if self._store.min_offset(request.topic, request.queue_id) > 0:
            raise RequestRejected(
                ResponseCode.QUERY_NOT_FOUND, "Not found, maybe this group consumer boot first"
            )
        return OffsetReply(offset=QueueOffset(0))

    @handles(UpdateConsumerOffset)
    async def update(self, request: UpdateConsumerOffset, call: Call) -> None:
        # Groups make themselves by a heartbeat or a pull, not by this: so it is at RocketMQ's.
        if self._groups.get(request.consumer_group) is None:
            self._check_group_name(request.consumer_group)
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"Group {request.consumer_group} not exist! A heartbeat or a pull creates it",
            )
        topic = self._topics.get(request.topic)
        if topic is None:
            self._check_queue(request.topic, request.queue_id)
            raise RequestRejected(ResponseCode.TOPIC_NOT_EXIST, f"Topic {request.topic} not exist!")
        queues = max(topic.read_queues, topic.write_queues)
        if not 0 <= request.queue_id < queues:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{request.queue_id}] is illegal, topic:[{request.topic}] has {queues}",
            )
        self._offsets.commit(
            request.consumer_group, request.topic, request.queue_id, request.commit_offset
        )
        if self._saved is not None:
            try:
                await self._saved()
            except StoreError as error:
                raise RequestRejected(
                    ResponseCode.SYSTEM_ERROR, f"the offset is not on the disk: {error}"
                ) from error

    # The queue's own

    @handles(GetMinOffset)
    async def least(self, request: GetMinOffset, call: Call) -> OffsetReply:
        self._check_queue(request.topic, request.queue_id)
        return OffsetReply(offset=self._store.min_offset(request.topic, request.queue_id))

    @handles(GetMaxOffset)
    async def greatest(self, request: GetMaxOffset, call: Call) -> OffsetReply:
        self._check_queue(request.topic, request.queue_id)
        return OffsetReply(offset=self._store.max_offset(request.topic, request.queue_id))

    @handles(SearchOffsetByTimestamp)
    async def at_time(self, request: SearchOffsetByTimestamp, call: Call) -> OffsetReply:
        self._check_queue(request.topic, request.queue_id)
        upper = request.boundary_type is BoundaryType.UPPER
        try:
            offset = self._store.offset_at_time(
                request.topic,
                request.queue_id,
                request.timestamp,
                Boundary.UPPER if upper else Boundary.LOWER,
            )
        except StoreError as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
        return OffsetReply(offset=offset)

    @handles(GetEarliestStoreTime)
    async def earliest(self, request: GetEarliestStoreTime, call: Call) -> EarliestStoreTimeReply:
        self._check_queue(request.topic, request.queue_id)
        try:
            stored_ms = self._store.earliest_stored_ms(request.topic, request.queue_id)
        except StoreError as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
        return EarliestStoreTimeReply(timestamp=stored_ms)

    # Names from the wire

    def _check_queue(self, topic: str, queue_id: int) -> None:
        """Refuse what cannot be a queue. One that is not there is empty, as at RocketMQ's."""
        if self._topics.get(topic) is None:
            try:
                check_topic(topic)
            except InvalidName as error:
                raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
        if queue_id < 0:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER, f"queueId[{queue_id}] is illegal, it is below 0"
            )

    def _check_group_name(self, group: str) -> None:
        if self._groups.get(group) is None:
            try:
                check_group(group)
            except InvalidName as error:
                raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
