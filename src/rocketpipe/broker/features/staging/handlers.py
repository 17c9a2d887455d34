"""Answers to staged sends: each part is checked as a send is, so that its commit cannot fail on it.

names and numbers that make no sense   29
the topic or the queue                 as by a send
a part that is no batch, too long …    13
no room                                2
a commit whose stages are not here     29; of a batch that was committed: success
a preparation whose stages are not     29; of a batch that was committed: success
"""

from __future__ import annotations

from typing import Final

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.delivery.single_sends import check_keys, check_type
from rocketpipe.broker.features.staging.messages import StagedMessages, illegal
from rocketpipe.broker.features.staging.records import Part, part_put
from rocketpipe.broker.features.staging.staging import Staging
from rocketpipe.broker.intake.intake import Intake
from rocketpipe.broker.intake.sent_properties import SendOptions
from rocketpipe.broker.intake.topic_provider import TopicProvider
from rocketpipe.errors import InvalidName, RecordError, RequestRejected
from rocketpipe.model import properties
from rocketpipe.model.flags import BORN_HOST_V6, MULTI_TAGS
from rocketpipe.model.host import Host
from rocketpipe.model.names import check_sendable, is_retry_topic
from rocketpipe.model.topic import Perm, TopicFilterType
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.staging import (
    AskStages,
    AskStagesReply,
    CommitStages,
    CommitStagesReply,
    ListStaged,
    PrepareStages,
    PrepareStagesReply,
    SettleStages,
    StagedApplication,
    StagedApplications,
    StagedApplicationsReply,
    StageList,
    StageMessages,
    StageMessagesReply,
)
from rocketpipe.remoting.router import Call, handles

MAX_NAME: Final = 255


class StagingHandlers:
    """Takes parts, and shows them."""

    def __init__(
        self,
        config: BrokerConfig,
        intake: Intake,
        topic_provider: TopicProvider,
        staging: Staging,
        messages: StagedMessages,
    ) -> None:
        self._config = config
        self._intake = intake
        self._topic_provider = topic_provider
        self._staging = staging
        self._messages = messages

    def reconfigure(self, config: BrokerConfig) -> None:
        """Go by other settings from now on."""
        self._config = config
        self._messages.limit(config.max_message_bytes)

    @handles(StageMessages)
    async def stage(self, request: StageMessages, call: Call) -> StageMessagesReply:
        self._intake.admit()
        if not self._config.permission & Perm.WRITE:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION, f"the broker[{self._config.name}] is read-only"
            )
        _check_name("application", request.application)
        _check_name("stage", request.stage)
        if request.batch < 0 or request.part < 0:
            raise _wrong(f"batch {request.batch}, part {request.part}: neither is negative")
        part = await self._part(request, call)
        # Not when it is committed: what was taken before has to go through.
        try:
            is_plain = self._checked(part)
        except RecordError as error:
            raise illegal(str(error)) from error
        kept = await self._staging.stage(part, part_put(part), is_plain=is_plain)
        return StageMessagesReply(committed=not kept)

    def _checked(self, part: Part) -> bool:
        """Refuse what could not be stored; says whether all of it is known to be plain.

        Raises:
            RecordError: The body is no batch, or too long.
            RequestRejected: One of its messages asks for what cannot be done, or has no room.
        """
        topic, room = self._topic_provider.known(part.topic), self._intake.room
        has_attributes = topic is not None and bool(topic.attributes)
        if (
            not has_attributes
            and len(part.body) <= room.any_body_bytes
            and self._messages.are_plain(part)
        ):
            return True
        for put in self._messages.checked(part):
            room.check(put, retried=is_retry_topic(part.topic))
            if topic is not None and has_attributes:
                wishes = SendOptions.of(properties.decode_bytes(put.properties))
                check_keys(topic, wishes)
                check_type(self._config, topic, wishes)
        return False

    @handles(CommitStages)
    async def commit(self, request: CommitStages, call: Call) -> CommitStagesReply:
        if request.batch < 0:
            return CommitStagesReply()
        self._intake.admit()
        _check_name("application", request.application)
        for stage in request.named.stages:
            _check_name("stage", stage)
        outcome = await self._staging.commit((request.application, request.batch), request.named)
        return CommitStagesReply(
            duplicate=outcome.duplicate,
            outcome=StageList(plan=outcome.plan, content=outcome.content),
        )

    @handles(PrepareStages)
    async def prepare(self, request: PrepareStages, call: Call) -> PrepareStagesReply:
        self._intake.admit()
        named = request.named
        for kind, name in (
            ("application", request.application),
            ("home", request.home),
            ("token", named.token or ""),
            *(("stage", stage) for stage in named.stages),
        ):
            _check_name(kind, name)
        if request.batch < 0 or not named.stages:
            raise _wrong(f"batch {request.batch}, {len(named.stages)} stages: 0, 1 or more")
        batch = (request.application, request.batch)
        kept = await self._staging.prepare(batch, named.stages, request.home, named.token or "")
        content = None if kept else self._staging.book.ledger.content(*batch)
        return PrepareStagesReply(committed=not kept, outcome=StageList(content=content))

    @handles(AskStages)
    async def ask(self, request: AskStages, call: Call) -> AskStagesReply:
        given_up = [each for each in (request.given_up or "").split(",") if each]
        for token in given_up:
            _check_name("token", token)
        batch = (request.application, request.batch)
        decided, plan = await self._staging.outcome(batch, given_up)
        return AskStagesReply(decided=decided, outcome=StageList(plan=plan))

    @handles(SettleStages)
    async def settle(self, request: SettleStages, call: Call) -> None:
        self._staging.settle((request.application, request.batch), request.share)

    @handles(ListStaged)
    async def list_staged(self, request: ListStaged, call: Call) -> StagedApplicationsReply:
        found = (
            StagedApplication(
                application=name,
                batches=batches,
                contents={str(number): text for number, text in contents.items()},
            )
            for name, batches, contents in self._staging.book.ledger.newest()
        )
        return StagedApplicationsReply(staged=StagedApplications(applications=tuple(found)))

    async def _part(self, request: StageMessages, call: Call) -> Part:
        try:
            check_sendable(request.topic)
        except InvalidName as error:
            raise _wrong(str(error)) from error
        if is_retry_topic(request.topic):
            topic = await self._topic_provider.ensured(request.topic, queues=1)
        else:
            topic = await self._topic_provider.for_send(
                request.topic, like=request.default_topic, queues=request.default_topic_queue_nums
            )
        queue_id = request.queue_id
        if queue_id < 0:
            queue_id = self._topic_provider.any_queue(topic.write_queues)
        if queue_id >= max(topic.write_queues, topic.read_queues):
            raise _wrong(f"queueId[{queue_id}]: topic [{topic.name}] has {topic.write_queues}")
        born_host = Host.parse(call.peer.address)
        sys_flag = BORN_HOST_V6 if born_host.is_v6 else 0
        if topic.filter_type is TopicFilterType.MULTI_TAG:
            sys_flag |= MULTI_TAGS
        return Part(
            batch=(request.application, request.batch),
            stage=request.stage,
            number=request.part,
            topic=topic.name,
            queue_id=queue_id,
            sys_flag=sys_flag,
            born_ms=request.born_timestamp,
            born_host=born_host.pack(),
            body=request.body,
        )


def _check_name(kind: str, name: str) -> None:
    if not 0 < len(name) <= MAX_NAME or not name.isprintable() or name != name.strip():
        raise _wrong(f"the {kind} has 1 to {MAX_NAME} characters that can be printed")


def _wrong(remark: str) -> RequestRejected:
    return RequestRejected(ResponseCode.INVALID_PARAMETER, remark)
