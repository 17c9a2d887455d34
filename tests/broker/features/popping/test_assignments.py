"""Who asks the broker for its queues gets them as the group's mode says."""

from __future__ import annotations

from typing import Any, cast

import pytest

from rocketpipe.broker.features.popping.assignments import AssignmentHandlers
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.groups import GroupTable
from rocketpipe.broker.tables.request_modes import RequestModeTable
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.errors import RequestRejected
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import MessageModel, MessageRequestMode
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.clients import (
    AssignmentQuestion,
    GetAllRequestModes,
    QueryAssignment,
    QueueAssignment,
    RequestMode,
    SetMessageRequestMode,
)

QUEUES = [
    MessageQueue(topic="t", broker_name=name, queue_id=each)
    for name in ("a", "b")
    for each in range(2)
]
CALL = cast("Any", None)


class Members:
    """A group of two."""

    def client_ids(self) -> list[str]:
        return ["c1", "c2"]


class Clients:
    """Who is connected, as far as handlers look at it."""

    def consumer_group(self, name: str) -> Members | None:
        return Members() if name == "g" else None


class Parts:
    def __init__(self) -> None:
        self.saved = 0
        self.modes = RequestModeTable()
        topics, groups = TopicTable(4), GroupTable()
        topics.ensure("t", queues=4, now_ms=1)
        groups.ensure("g", 1)
        self.handlers = AssignmentHandlers(
            self.queues, cast("ClientTable", Clients()), self.modes, topics, groups, self.save
        )

    async def queues(self, topic: str) -> list[MessageQueue] | None:
        return QUEUES if topic == "t" else None

    async def save(self) -> None:
        self.saved += 1

    async def ask(self, **changes: Any) -> tuple[QueueAssignment, ...] | None:
        fields: dict[str, Any] = {
            "topic": "t",
            "consumer_group": "g",
            "client_id": "c1",
            "strategy_name": "AVG",
        }
        question = AssignmentQuestion(**{**fields, **changes})
        reply = await self.handlers.assign(QueryAssignment(question=question), CALL)
        return reply.assigned.assignments


async def test_queues_are_pulled_by_whom_the_strategy_gives_them_to() -> None:
    parts = Parts()
    first, second = await parts.ask(), await parts.ask(client_id="c2")
    assert first is not None
    assert second is not None
    assert [each.message_queue for each in (*first, *second)] == QUEUES
    assert {each.mode for each in first} == {MessageRequestMode.PULL}
    assert await parts.ask(strategy_name="MINE") is None
    assert await parts.ask(topic="nowhere") is None
    assert await parts.ask(consumer_group="nobody") is None
    everything = await parts.ask(message_model=MessageModel.BROADCASTING)
    assert everything is not None
    assert len(everything) == 4


async def test_a_group_that_is_set_to_pop_pops_from_every_broker() -> None:
    parts = Parts()
    mode = RequestMode(topic="t", consumer_group="g", mode=MessageRequestMode.POP)
    await parts.handlers.set_mode(SetMessageRequestMode(mode=mode), CALL)
    assert parts.saved == 1
    given = await parts.ask()
    assert given is not None
    assert {each.mode for each in given} == {MessageRequestMode.POP}
    assert [(each.message_queue.broker_name, each.message_queue.queue_id) for each in given] == [
        ("a", -1),
        ("b", -1),
    ]
    told = await parts.handlers.modes(GetAllRequestModes(), CALL)
    assert told.table.modes == {"t": {"g": mode}}


@pytest.mark.parametrize(
    ("topic", "group", "code"),
    [
        ("%RETRY%g", "g", ResponseCode.NO_PERMISSION),
        ("nowhere", "g", ResponseCode.TOPIC_NOT_EXIST),
        ("t", "nobody", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
    ],
)
async def test_a_mode_of_what_is_not_there_is_refused(topic: str, group: str, code: int) -> None:
    parts = Parts()
    mode = RequestMode(topic=topic, consumer_group=group)
    with pytest.raises(RequestRejected) as refused:
        await parts.handlers.set_mode(SetMessageRequestMode(mode=mode), CALL)
    assert refused.value.code == code
    assert parts.saved == 0
