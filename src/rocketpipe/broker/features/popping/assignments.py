"""Answers to consumers that have the broker share out queues, and to who decides how they fetch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rocketpipe.broker.features.popping.pop_assignment import STRATEGIES, shared, shared_by_pop
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.groups import GroupTable
from rocketpipe.broker.tables.request_modes import RequestModeTable
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.errors import RequestRejected
from rocketpipe.model.names import is_retry_topic
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import MessageModel, MessageRequestMode
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.clients import (
    AllRequestModesReply,
    AssignmentQuestion,
    AssignmentReply,
    GetAllRequestModes,
    QueryAssignment,
    QueueAssignment,
    QueueAssignments,
    RequestMode,
    SetMessageRequestMode,
)
from rocketpipe.remoting.router import Call, handles

#: Every queue of a topic that may be read, on all brokers; None if the topic is nowhere.
Queues = Callable[[str], Awaitable[list[MessageQueue] | None]]


class AssignmentHandlers:
    """Shares out the queues of topics among the members of groups."""

    def __init__(
        self,
        queues_of: Queues,
        members: ClientTable,
        modes: RequestModeTable,
        topics: TopicTable,
        groups: GroupTable,
        save: Callable[[], Awaitable[None]],
    ) -> None:
        """``save`` returns when the modes are on disk."""
        self._queues_of = queues_of
        self._members = members
        self._modes = modes
        self._topics = topics
        self._groups = groups
        self._save = save

    @handles(QueryAssignment)
    async def assign(self, request: QueryAssignment, call: Call) -> AssignmentReply:
        question = request.question
        mode = self._mode(question.topic, question.consumer_group)
        queues = await self._share(question, mode)
        assigned = None
        if queues is not None:
            assigned = tuple(
                QueueAssignment(message_queue=queue, mode=mode.mode) for queue in queues
            )
        return AssignmentReply(assigned=QueueAssignments(assignments=assigned))

    def _mode(self, topic: str, group: str) -> RequestMode:
        found = self._modes.get(topic, group)
        if found is not None:
            return found
        return RequestMode(topic=topic, consumer_group=group)

    async def _share(
        self, question: AssignmentQuestion, mode: RequestMode
    ) -> list[MessageQueue] | None:
        queues = await self._queues_of(question.topic)
        if queues is None or question.message_model is MessageModel.BROADCASTING:
            return queues
        group = self._members.consumer_group(question.consumer_group)
        strategy = STRATEGIES.get(question.strategy_name or "")
        if group is None or strategy is None:
            return None
        members = sorted(set(group.client_ids()), key=_as_java_sorts)
        if not members:
            return None
        if mode.mode is MessageRequestMode.POP:
            share = mode.pop_share_queue_num
            return shared_by_pop(strategy, question.client_id, members, queues, share)
        return shared(strategy, question.client_id, members, queues)

    @handles(SetMessageRequestMode)
    async def set_mode(self, request: SetMessageRequestMode, call: Call) -> None:
        mode = request.mode
        if is_retry_topic(mode.topic):
            raise RequestRejected(
                ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode"
            )
        if self._topics.get(mode.topic) is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{mode.topic}] not exist: create it first"
            )
        if self._groups.get(mode.consumer_group) is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group does not exist: create {mode.consumer_group} first",
            )
        self._modes.set(mode)
        await self._save()

    @handles(GetAllRequestModes)
    async def modes(self, request: GetAllRequestModes, call: Call) -> AllRequestModesReply:
        return AllRequestModesReply(table=self._modes.to_file())


def _as_java_sorts(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")
