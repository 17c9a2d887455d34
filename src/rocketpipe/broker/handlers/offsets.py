"""Answers about positions: a group's place in a queue, and the queue's own ends."""

from __future__ import annotations

from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.offsets import (
    GetMaxOffset,
    GetMinOffset,
    OffsetReply,
    QueryConsumerOffset,
    UpdateConsumerOffset,
)
from rocketpipe.remoting.router import Call, handles
from rocketpipe.store.message_store import MessageStore


class OffsetHandlers:
    """Keeps and tells offsets."""

    def __init__(self, store: MessageStore, offsets: OffsetTable) -> None:
        self._store = store
        self._offsets = offsets

    @handles(QueryConsumerOffset)
    async def query(self, request: QueryConsumerOffset, call: Call) -> OffsetReply:
        offset = self._offsets.committed(request.consumer_group, request.topic, request.queue_id)
        if offset is not None:
            return OffsetReply(offset=offset)
        # A queue that still has its first message is begun there. With "not found" a new consumer
        # would ask for the greatest offset and miss what arrives between the two questions.
        begun_at_zero = self._store.min_offset(request.topic, request.queue_id) == 0
        if begun_at_zero and request.set_zero_if_not_found is not False:
            return OffsetReply(offset=QueueOffset(0))
        raise RequestRejected(
            ResponseCode.QUERY_NOT_FOUND, "Not found, maybe this group consumer boot first"
        )

    @handles(UpdateConsumerOffset)
    async def update(self, request: UpdateConsumerOffset, call: Call) -> None:
        self._offsets.commit(
            request.consumer_group, request.topic, request.queue_id, request.commit_offset
        )

    @handles(GetMinOffset)
    async def least(self, request: GetMinOffset, call: Call) -> OffsetReply:
        return OffsetReply(offset=self._store.min_offset(request.topic, request.queue_id))

    @handles(GetMaxOffset)
    async def greatest(self, request: GetMaxOffset, call: Call) -> OffsetReply:
        return OffsetReply(offset=self._store.max_offset(request.topic, request.queue_id))
