"""A broker with this feature keeps what was popped over its own restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe import Producer, SimpleConsumer
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.subscription import MessageRequestMode
from rocketpipe.protocol.requests.clients import (
    AssignmentQuestion,
    QueryAssignment,
    RequestMode,
    SetMessageRequestMode,
)
from rocketpipe.protocol.requests.groups import UpdateAndCreateGroup
from rocketpipe.remoting.caller import Caller
from rocketpipe.testing import cluster

pytestmark = pytest.mark.scenario


async def test_receipts_and_modes_outlive_a_restart(tmp_path: Path) -> None:
    mode = RequestMode(topic="orders", consumer_group="g", mode=MessageRequestMode.POP)
    async with cluster(tmp_path) as servers, Caller() as caller:
        async with Producer(servers.name_server) as producer:
            await producer.send("orders", b"1")
            await producer.send("orders", b"2")
        async with SimpleConsumer(servers.name_server, group="g") as consumer:
            await consumer.subscribe("orders")
            got = await consumer.receive()
            while len(got) < 2:
                got += await consumer.receive()
        await caller.call(servers.broker, UpdateAndCreateGroup(settings=GroupSettings(name="g")))
        await caller.call(servers.broker, SetMessageRequestMode(mode=mode))
    async with cluster(tmp_path) as servers, Caller() as caller:
        async with SimpleConsumer(servers.name_server, group="g") as consumer:
            await consumer.subscribe("orders")
            assert await consumer.receive(wait_ms=1) == []
            await consumer.ack(got[0])
            await consumer.change_invisible(got[1], 0)
            (again,) = await consumer.receive()
            assert again.body == got[1].body
            question = AssignmentQuestion(
                topic="orders",
                consumer_group="g",
                client_id=consumer.session.client_id,
                strategy_name="AVG",
            )
            reply = await caller.call(servers.broker, QueryAssignment(question=question))
    assert reply.assigned.assignments is not None
    assert [each.mode for each in reply.assigned.assignments] == [MessageRequestMode.POP]
