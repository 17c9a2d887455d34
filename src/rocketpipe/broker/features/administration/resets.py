"""Answers to operators who have a group go on elsewhere, or give it another group's places."""

from __future__ import annotations

from rocketpipe.broker.features.administration.lag import Progress
from rocketpipe.broker.features.administration.offset_resets import Resets
from rocketpipe.broker.tables.groups import GroupTable
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.errors import InvalidName, RequestRejected, StoreError
from rocketpipe.model.names import check_group
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.offsets import (
    InvokeBrokerToResetOffset,
    QueueOffsets,
    ResetOffsetReply,
)
from rocketpipe.protocol.requests.progress import CloneGroupOffset
from rocketpipe.remoting.router import Call, handles
from rocketpipe.store.message_store import MessageStore


class ResetHandlers:
    """Moves groups by time and by offset, whether they have members or not."""

    def __init__(
        self,
        resets: Resets,
        store: MessageStore,
        topics: TopicTable,
        groups: GroupTable,
        broker_name: str,
    ) -> None:
        self._resets = resets
        self._store = store
        self._topics = topics
        self._groups = groups
        self._broker_name = broker_name

    @handles(InvokeBrokerToResetOffset)
    async def reset(self, request: InvokeBrokerToResetOffset, call: Call) -> ResetOffsetReply:
        """Nothing is moved unless all of it can be; without force nothing is skipped."""
        topic = self._topics.get(request.topic)
        if topic is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST, f"Topic {request.topic} does not exist"
            )
        if self._groups.get(request.group) is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"Group {request.group} does not exist: a consumer creates it, or an operator does",
            )
        wanted = self._wanted(topic, request)
        if not request.is_force:
            wanted = self._resets.not_ahead(request.group, topic.name, wanted)
        self._resets.apply(request.group, topic.name, wanted)
        offsets = {
            MessageQueue(topic=topic.name, broker_name=self._broker_name, queue_id=queue_id): offset
            for queue_id, offset in wanted.items()
        }
        self._resets.tell(request.group, topic.name, request.timestamp, offsets)
        return ResetOffsetReply(reset=QueueOffsets(offsets=offsets))

    def _wanted(
        self, topic: TopicSettings, request: InvokeBrokerToResetOffset
    ) -> dict[int, QueueOffset]:
        queues = max(topic.read_queues, topic.write_queues)
        if request.queue_id >= queues:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{request.queue_id}] is illegal, topic:[{topic.name}] has {queues}",
            )
        chosen = range(queues) if request.queue_id < 0 else (request.queue_id,)
        if request.offset is not None and request.offset >= 0:
            return {each: self._checked(topic.name, each, request.offset) for each in chosen}
        try:
            return {
                each: self._resets.at_time(topic.name, each, request.timestamp) for each in chosen
            }
        except StoreError as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error

    def _checked(self, topic: str, queue_id: int, offset: QueueOffset) -> QueueOffset:
        least = self._store.min_offset(topic, queue_id)
        end = self._store.max_offset(topic, queue_id)
        if not least <= offset <= end:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"Target offset {offset} not in consume queue range [{least}-{end}] "
                f"of queue {queue_id}",
            )
        return offset


class CloneHandlers:
    """Gives a group the places of another."""

    def __init__(self, offsets: OffsetTable, topics: TopicTable, progress: Progress) -> None:
        self._offsets = offsets
        self._topics = topics
        self._progress = progress

    @handles(CloneGroupOffset)
    async def clone(self, request: CloneGroupOffset, call: Call) -> None:
        """In one topic, or in all that the first group has places in."""
        source, target = request.src_group, request.dest_group
        try:
            check_group(target)
        except InvalidName as error:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
        topic = (request.topic or "").strip()
        if topic and self._topics.get(topic) is None:
            raise RequestRejected(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} does not exist")
        for name in [topic] if topic else self._progress.topics_of(source):
            if not request.offline and not self._progress.wants(source, name):
                continue
            for queue_id, offset in self._offsets.places(source, name).items():
                self._offsets.commit(target, name, queue_id, offset)
