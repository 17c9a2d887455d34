"""What can be said about a pull before its queue is looked at: may it, and what does it want?

The checks stand in the order of RocketMQ's, so that whoever breaks two rules is told of the same
one. What comes out stays right for as long as topics, groups and clients do not change, and so it
can be kept: see `PullPlan`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.delivery.filtering import Choice, Expression, Filters
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.groups import GroupTable
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.errors import FilterError, InvalidName, RequestRejected
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.names import check_topic
from rocketpipe.model.subscription import TAG, MessageModel, Subscription
from rocketpipe.model.topic import Perm, TopicSettings
from rocketpipe.protocol.codes import RequestCode, ResponseCode
from rocketpipe.protocol.requests.pulling import ForbiddenType, PullMessage
from rocketpipe.store.queues.reader import MAX_READ_BYTES, MAX_READ_COUNT

#: For a pull that asks for it by a field of ours, which RocketMQ's clients do not have.
MAX_BULK_COUNT: Final = 4096
MAX_BULK_BYTES: Final = 1 << 20
#: RocketMQ takes no smaller limit seriously.
_LEAST_BYTES: Final = 100

# Plain numbers: an operation on a flag of an enum takes a microsecond, and a pull has many.
_READ: Final = int(Perm.READ)
_SUSPEND: Final = int(PullFlag.SUSPEND)
_SUBSCRIPTION: Final = int(PullFlag.SUBSCRIPTION)
_CLASS_FILTER: Final = int(PullFlag.CLASS_FILTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRules:
    """What a broker lets pulls do. The defaults are RocketMQ's, but that SQL92 is on."""

    #: Bits of ``model.topic.Perm``.
    permission: int = int(Perm.READ | Perm.WRITE)
    lite_pull: bool = True
    property_filter: bool = True
    #: Whether a pull waits as long as it asks to, and how long it waits otherwise.
    long_polling: bool = True
    short_polling_ms: int = 1000
    #: A longer wait is never granted.
    max_suspend_ms: int = 30_000

    def wait_ms(self, sys_flag: int, suspend_ms: int) -> int:
        """How long a pull that finds nothing is to wait; 0 if it is to be answered at once."""
        if not sys_flag & _SUSPEND:
            return 0
        return min(suspend_ms if self.long_polling else self.short_polling_ms, self.max_suspend_ms)

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """The rules that settings say."""
        return cls(
            permission=config.permission,
            lite_pull=config.lite_pull,
            property_filter=config.property_filter,
            long_polling=config.long_polling,
            short_polling_ms=config.short_polling_ms,
            max_suspend_ms=config.max_suspend_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PullPlan:
    """How a pull is to be answered, whatever its offset.

    It holds for every pull that differs in nothing but offsets, limits and times, until the version
    of the topics, the version of the groups or ``changes`` of the clients is another.
    """

    #: Asked about the hash of a tag; ``store.reader.everything`` where all are wanted.
    matches: Callable[[int], bool]
    #: Asked about the properties of a record, where an expression is over those.
    accepts: Expression | None = None
    #: What answers tell of topic and group; None stands for no flags.
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None


class PullForbidden(RequestRejected):
    """Somebody may not read here; ``forbidden_type`` says because of whom."""

    def __init__(self, forbidden_type: ForbiddenType, remark: str) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, remark)
        self.forbidden_type = forbidden_type


def read_limits(max_msg_nums: int, max_msg_bytes: int | None, bulk: bool | None) -> tuple[int, int]:
    """How many messages, and how many bytes, one answer may have; one message it always may.

    RocketMQ gives fewer of what it takes to be on the disk and not in memory. We cannot know that,
    and always give what it gives from memory.
    """
    count, size = (MAX_BULK_COUNT, MAX_BULK_BYTES) if bulk else (MAX_READ_COUNT, MAX_READ_BYTES)
    if max_msg_bytes is not None and max_msg_bytes > 0:
        size = min(size, max(max_msg_bytes, _LEAST_BYTES))
    return max(1, min(max_msg_nums, count)), size


class PullPlanner:
    """Checks pulls, and finds what their consumers subscribed to."""

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        clients: ClientTable,
        filters: Filters,
        rules: PullRules,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self.filters = filters
        #: Another one may take its place; plans that were made before do not know of it.
        self.rules = rules

    def plan(self, request: PullMessage, code: int, now_ms: int) -> PullPlan:
        """Check everything about a pull but its offsets; ``code`` is the one it came under.

        A group that comes for the first time is made, where groups may make themselves.

        Raises:
            PullForbidden: If broker, group or topic do not allow it.
            RequestRejected: If it is wrong in another way.
        """
        self._check_broker(code)
        group = self._group(request.consumer_group, now_ms)
        topic = self._topic(request.topic)
        if not 0 <= request.queue_id < topic.read_queues:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{request.queue_id}] is illegal, topic:[{request.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queues}]",
            )
        by_class = bool(request.sys_flag & _CLASS_FILTER)
        if request.sys_flag & _SUBSCRIPTION:
            kind = request.expression_type or TAG
            choice = None if by_class else self._own_choice(request)
        else:
            subscription = self._subscription(request, group)
            kind = subscription.expression_type or TAG
            by_class = by_class or subscription.class_filter_mode
            choice = None if by_class else self._choice_of(subscription)
        if choice is None:
            raise _not_supported("class", "subscribe by tags or SQL92")
        if kind != TAG and not self.rules.property_filter:
            raise _not_supported(kind, "enablePropertyFilter is off")
        return PullPlan(
            matches=choice.matches,
            accepts=choice.accepts,
            topic_sys_flag=topic.sys_flag or None,
            group_sys_flag=group.sys_flag or None,
        )

    def wait_ms(self, request: PullMessage) -> int:
        """How long this pull is to wait if it finds nothing; 0 for not at all."""
        return self.rules.wait_ms(request.sys_flag, request.suspend_timeout_millis)

    def _check_broker(self, code: int) -> None:
        if not self.rules.permission & _READ:
            raise PullForbidden(
                ForbiddenType.BROKER,
                "the broker pulling message is forbidden: its brokerPermission lacks 4",
            )
        if code == RequestCode.LITE_PULL_MESSAGE and not self.rules.lite_pull:
            raise PullForbidden(
                ForbiddenType.BROKER,
                "the broker for lite pull consumer is forbidden: litePullMessageEnable is off",
            )

    def _group(self, name: str, now_ms: int) -> GroupSettings:
        try:
            group = self._groups.ensure(name, now_ms)
        except InvalidName as error:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
        if group is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{name}] does not exist: create it first, "
                "autoCreateSubscriptionGroup is off",
            )
        if not group.consume_enable:
            raise PullForbidden(
                ForbiddenType.GROUP, f"subscription group no permission, {name}: consumeEnable"
            )
        return group

    def _topic(self, name: str) -> TopicSettings:
        topic = self._topics.get(name)
        if topic is None:
            try:
                check_topic(name)
            except InvalidName as error:
                raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!"
            )
        if not topic.perm & _READ:
            raise PullForbidden(
                ForbiddenType.TOPIC, f"the topic[{name}] pulling message is forbidden"
            )
        return topic

    def _own_choice(self, request: PullMessage) -> Choice:
        """The choice of a pull that brings its subscription along."""
        try:
            return self.filters.choice(request.expression_type, request.subscription)
        except FilterError as error:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                f"parse the consumer's subscription failed: {error}",
            ) from error

    def _subscription(self, request: PullMessage, group: GroupSettings) -> Subscription:
        """What heartbeats of the group said about the topic."""
        members = self._clients.consumer_group(group.name)
        if members is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's group info not exist: group[{group.name}] has no member that "
                "heartbeats here",
            )
        if members.model is MessageModel.BROADCASTING and not group.consume_broadcast_enable:
            raise PullForbidden(
                ForbiddenType.BROADCASTING,
                f"the consumer group[{group.name}] can not consume by broadcast way",
            )
        if self._groups.forbidden(group.name, request.topic) & _READ:
            raise PullForbidden(
                ForbiddenType.SUBSCRIPTION,
                f"the consumer group[{group.name}] is forbidden for topic[{request.topic}]",
            )
        subscription = members.subscription(request.topic)
        if subscription is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's subscription not exist: group[{group.name}] does not subscribe "
                f"to topic[{request.topic}]; do all its members subscribe alike?",
            )
        if subscription.version < request.sub_version:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_NOT_LATEST,
                "the consumer's subscription not latest: its next heartbeat brings it",
            )
        return subscription

    def _choice_of(self, subscription: Subscription) -> Choice:
        try:
            return self.filters.choice_of(subscription)
        except FilterError as error:
            if subscription.is_tags:
                code = ResponseCode.SUBSCRIPTION_PARSE_FAILED
                remark = f"parse the consumer's subscription failed: {error}"
            else:
                code = ResponseCode.FILTER_DATA_NOT_EXIST
                remark = (
                    "The broker's consumer filter data is not exist! "
                    f"Your expression may be wrong! {error}"
                )
            raise RequestRejected(code, remark) from error


def _not_supported(what: str, why: str) -> RequestRejected:
    return RequestRejected(
        ResponseCode.SYSTEM_ERROR,
        f"The broker does not support consumer to filter message by {what}: {why}",
    )
