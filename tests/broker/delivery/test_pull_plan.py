"""Every check of a pull that does not depend on its queue, and the order they come in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from rocketpipe.broker.delivery.filtering import Filters
from rocketpipe.broker.delivery.pull_plan import (
    PullForbidden,
    PullPlan,
    PullPlanner,
    PullRules,
    read_limits,
)
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.consumer_group import Client, Consuming
from rocketpipe.broker.tables.groups import GroupTable
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.errors import RequestRejected
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.subscription import SQL92, MessageModel, Subscription
from rocketpipe.model.topic import Perm, TopicSettings
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.pulling import ForbiddenType, PullMessage
from rocketpipe.record.hot import java_hash
from rocketpipe.store.queues.reader import everything

PULL = PullMessage(
    consumer_group="g",
    topic="t",
    queue_id=1,
    queue_offset=QueueOffset(0),
    max_msg_nums=32,
    sys_flag=int(PullFlag.SUSPEND),
    commit_offset=QueueOffset(0),
    suspend_timeout_millis=15_000,
    sub_version=5,
)
OWN = replace(PULL, sys_flag=int(PullFlag.SUBSCRIPTION), subscription="*")


class Broker:
    """Tables with one topic, one group and one member of it."""

    def __init__(self) -> None:
        self.topics = TopicTable(8)
        self.topics.update(TopicSettings(name="t", read_queues=2, write_queues=4), 1)
        self.groups = GroupTable()
        self.groups.update(GroupSettings(name="g"), 1)
        self.clients = ClientTable()
        self.filters = Filters()
        self.join()

    def join(self, model: MessageModel = MessageModel.CLUSTERING, **subscription: Any) -> None:
        wanted = Subscription(**{"topic": "t", "expression": "A", "version": 5, **subscription})
        self.clients.join(
            "g",
            Client(connection="c", client_id="c"),
            Consuming(model=model, subscriptions=(wanted,)),
            1,
        )

    def change_group(self, **changes: Any) -> None:
        group = self.groups.get("g")
        assert group is not None
        self.groups.update(msgspec.structs.replace(group, **changes), 2)

    def change_topic(self, **changes: Any) -> None:
        topic = self.topics.get("t")
        assert topic is not None
        self.topics.update(msgspec.structs.replace(topic, **changes), 2)

    def plan(self, request: PullMessage, *, lite: bool = False, **rules: Any) -> PullPlan:
        planner = PullPlanner(
            self.topics, self.groups, self.clients, self.filters, PullRules(**rules)
        )
        return planner.plan(request, 361 if lite else 11, 3)

    def refusal(
        self, request: PullMessage, *, lite: bool = False, **rules: Any
    ) -> tuple[int, int | None, str]:
        with pytest.raises(RequestRejected) as refused:
            self.plan(request, lite=lite, **rules)
        error = refused.value
        kind = int(error.forbidden_type) if isinstance(error, PullForbidden) else None
        return error.code, kind, error.remark


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_a_pull_is_planned_by_the_subscription_that_it_brings(broker: Broker) -> None:
    assert broker.plan(OWN).matches is everything
    plan = broker.plan(replace(OWN, subscription="B", consumer_group="nobody-else"))
    assert plan.matches(java_hash("B"))
    assert not plan.matches(java_hash("A"))
    assert (plan.topic_sys_flag, plan.group_sys_flag) == (None, None)


def test_a_pull_is_planned_by_the_groups_subscription(broker: Broker) -> None:
    plan = broker.plan(PULL)
    assert plan.matches(java_hash("A"))
    assert not plan.matches(java_hash("B"))
    assert plan.accepts is None


def test_sql_is_planned_either_way(broker: Broker) -> None:
    own = broker.plan(replace(OWN, subscription="a = '1'", expression_type=SQL92))
    broker.join(expression="a = '1'", expression_type=SQL92)
    for plan in (own, broker.plan(PULL)):
        assert plan.matches is everything
        assert plan.accepts is not None
        assert plan.accepts(b"a\x011\x02")
        assert not plan.accepts(b"a\x012\x02")


def test_flags_of_topic_and_group_are_told(broker: Broker) -> None:
    broker.change_topic(sys_flag=1)
    broker.change_group(sys_flag=2)
    plan = broker.plan(OWN)
    assert (plan.topic_sys_flag, plan.group_sys_flag) == (1, 2)


def test_a_group_makes_itself_unless_that_is_switched_off(broker: Broker) -> None:
    broker.plan(replace(OWN, consumer_group="new"))
    assert broker.groups.get("new") is not None
    broker.groups = GroupTable(auto_create=False)
    code, _, remark = broker.refusal(replace(OWN, consumer_group="new"))
    assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert "new" in remark


def test_a_broker_that_may_not_be_read_says_so_first(broker: Broker) -> None:
    wrong = replace(PULL, consumer_group="../x", topic="../x")
    assert broker.refusal(wrong, permission=2)[:2] == (16, ForbiddenType.BROKER)
    assert broker.refusal(wrong, lite=True, lite_pull=False)[:2] == (16, ForbiddenType.BROKER)
    assert broker.plan(OWN, lite_pull=False) == broker.plan(OWN, lite=True)


def test_names_that_look_like_paths_are_refused(broker: Broker) -> None:
    for wrong in ({"consumer_group": "../x"}, {"topic": "../x"}, {"topic": ""}):
        code, _, _ = broker.refusal(replace(OWN, **wrong))
        assert code == ResponseCode.INVALID_PARAMETER


def test_checks_come_in_rocketmqs_order(broker: Broker) -> None:
    """Each thing that is put right brings the next refusal to light."""
    broker.groups = GroupTable(auto_create=False)
    broker.topics = TopicTable(8)
    broker.clients = ClientTable()
    request = replace(PULL, queue_id=9)
    assert broker.refusal(request)[0] == 26
    broker.groups.update(
        GroupSettings(name="g", consume_enable=False, consume_broadcast_enable=False), 1
    )
    broker.groups.forbid("g", "t", int(Perm.READ), 1)
    assert broker.refusal(request)[:2] == (16, ForbiddenType.GROUP)
    broker.change_group(consume_enable=True)
    assert broker.refusal(request)[0] == 17
    broker.topics.update(TopicSettings(name="t", read_queues=2, perm=int(Perm.WRITE)), 1)
    assert broker.refusal(request)[:2] == (16, ForbiddenType.TOPIC)
    broker.change_topic(perm=6)
    assert broker.refusal(request)[0] == 29
    request = replace(request, queue_id=1)
    assert broker.refusal(request)[0] == 24
    broker.join(MessageModel.BROADCASTING, topic="other")
    assert broker.refusal(request)[:2] == (16, ForbiddenType.BROADCASTING)
    broker.change_group(consume_broadcast_enable=True)
    assert broker.refusal(request)[:2] == (16, ForbiddenType.SUBSCRIPTION)
    broker.groups.forbid("g", "t", 0, 1)
    assert broker.refusal(request)[0] == 24
    broker.join(version=4, expression="a >", expression_type=SQL92)
    assert broker.refusal(request)[0] == 25
    broker.join(expression="a >", expression_type=SQL92)
    assert broker.refusal(request, property_filter=False)[0] == 27
    broker.join(expression="a > 1", expression_type=SQL92)
    assert broker.refusal(request, property_filter=False)[0] == 1
    broker.plan(request)


@pytest.mark.parametrize("queue_id", [-1, 2, 1 << 30])
def test_a_queue_beyond_those_to_read_is_refused(broker: Broker, queue_id: int) -> None:
    code, _, remark = broker.refusal(replace(OWN, queue_id=queue_id))
    assert code == ResponseCode.INVALID_PARAMETER
    assert f"queueId[{queue_id}] is illegal" in remark
    assert "readQueueNums:[2]" in remark


@pytest.mark.parametrize(
    ("subscription", "kind"), [("||", "TAG"), ("a >", SQL92), (None, SQL92), ("x", "CLASS")]
)
def test_a_subscription_that_cannot_be_read_is_refused(
    broker: Broker, subscription: str | None, kind: str
) -> None:
    wrong = replace(OWN, subscription=subscription, expression_type=kind)
    assert broker.refusal(wrong)[0] == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_tags_of_a_heartbeat_that_cannot_be_read_are_refused(broker: Broker) -> None:
    broker.join(expression="||")
    assert broker.refusal(PULL)[0] == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_sql_can_be_switched_off_and_tags_cannot(broker: Broker) -> None:
    sql = replace(OWN, subscription="a > 1", expression_type=SQL92)
    code, _, remark = broker.refusal(sql, property_filter=False)
    assert (code, "SQL92" in remark) == (ResponseCode.SYSTEM_ERROR, True)
    broker.plan(OWN, property_filter=False)


def test_a_filter_by_class_is_refused(broker: Broker) -> None:
    code, _, remark = broker.refusal(replace(OWN, sys_flag=OWN.sys_flag | PullFlag.CLASS_FILTER))
    assert (code, "class" in remark) == (ResponseCode.SYSTEM_ERROR, True)
    broker.join(expression="class Filter {}", class_filter_mode=True)
    assert broker.refusal(PULL) == (code, None, remark)


def test_a_subscription_of_a_greater_version_serves_older_pulls(broker: Broker) -> None:
    broker.join(version=9)
    broker.plan(PULL)


def test_what_a_plan_depends_on_shows_when_it_changes(broker: Broker) -> None:
    def state() -> tuple[Any, ...]:
        return broker.topics.version, broker.groups.version, broker.clients.changes

    seen = [state()]
    changes = [
        lambda: broker.change_topic(read_queues=3),
        lambda: broker.change_group(consume_enable=False),
        lambda: broker.groups.forbid("g", "t", int(Perm.READ), 2),
        lambda: broker.join(expression="B"),
        lambda: broker.join(MessageModel.BROADCASTING, expression="B"),
        lambda: broker.clients.leave("g", "c"),
    ]
    for change in changes:
        change()
        assert state() not in seen
        seen.append(state())


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ((32, None, None), (32, 256 << 10)),
        ((1000, 1 << 30, False), (32, 256 << 10)),
        ((0, 0, None), (1, 256 << 10)),
        ((-1, -1, None), (1, 256 << 10)),
        ((10, 5, None), (10, 100)),
        ((10, 5000, None), (10, 5000)),
        ((10_000, None, True), (4096, 1 << 20)),
        ((100, 1 << 30, True), (100, 1 << 20)),
    ],
)
def test_an_answer_is_limited_as_rocketmq_limits_what_is_in_memory(
    asked: tuple[int, int | None, bool | None], given: tuple[int, int]
) -> None:
    assert read_limits(*asked) == given


def test_a_pull_waits_as_long_as_it_asks_and_may() -> None:
    suspend = int(PullFlag.SUSPEND)
    assert PullRules().wait_ms(suspend, 15_000) == 15_000
    assert PullRules().wait_ms(suspend, 60_000) == 30_000
    assert PullRules().wait_ms(0, 15_000) == 0
    assert PullRules(long_polling=False).wait_ms(suspend, 15_000) == 1000
    assert PullRules(long_polling=False).wait_ms(0, 15_000) == 0
