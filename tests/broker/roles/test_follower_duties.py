"""What a follower answers itself, what it passes on, and what it sends to the leader."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.asking import commit, group, message, topic
from tests.broker.support.replica_parts import Parts, replica_parts
from tests.waiting import until

from rocketpipe.broker.roles.follower_duties import (
    PASSED_ON,
    SENDS,
    SERVED,
    codes_of,
    follower_role,
    not_leading,
)
from rocketpipe.client.consumer.pull import pull_request
from rocketpipe.coordination.coordinator import Leader
from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.refusals import leader_in
from rocketpipe.protocol.requests.offsets import GetMaxOffset, QueryConsumerOffset
from rocketpipe.protocol.requests.replication import GetEpochCache

QUEUE = MessageQueue(topic="t", broker_name="broker-a", queue_id=0)
PULL = pull_request("g", QUEUE, QueueOffset(0), "*", suspend_ms=0)


@pytest.fixture
async def leader(tmp_path: Path) -> AsyncIterator[Parts]:
    async with replica_parts(tmp_path / "1") as parts:
        await parts.lead(1)
        yield parts


@pytest.fixture
async def follower(tmp_path: Path, leader: Parts) -> AsyncIterator[Parts]:
    async with replica_parts(tmp_path / "2", 2) as parts:
        assert leader.replica.leader is not None
        await parts.replica.follow(leader.replica.leader)
        await leader.send()
        await parts.caught_up(leader)
        await until(lambda: parts.core.store.max_offset("t", 0) == 1)
        yield parts


def test_the_leader_is_named_where_it_is_known() -> None:
    known = Leader(id=1, epoch=1, address="10.0.0.7:10911", ha_address="10.0.0.7:10912")
    assert leader_in(not_leading(known)[1]) == "10.0.0.7:10911"
    for unknown in (None, replace(known, address="")):
        code, remark = not_leading(unknown)
        assert code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert leader_in(remark) is None


def test_nothing_is_both_answered_here_and_passed_on() -> None:
    assert not codes_of(SERVED) & codes_of([*PASSED_ON, *SENDS])


async def test_everything_that_is_served_has_a_handler(follower: Parts) -> None:
    await follower.run.leave("a test builds its own")
    with follower_role(follower.core, lambda: None, lambda: False, me=2) as serving:
        assert codes_of(SERVED) <= serving.router.codes


async def test_what_is_confirmed_is_read_here(follower: Parts) -> None:
    assert (await follower.ask(GetMaxOffset(topic="t", queue_id=0))).offset == 1
    reply = await follower.ask(PULL)
    assert reply.code == ResponseCode.SUCCESS
    assert (await follower.ask(GetEpochCache())).cache.broker_id == 2


@pytest.mark.parametrize("request_", [message("t"), topic("new"), group("new")])
async def test_what_only_a_leader_does_is_refused_with_its_address(
    leader: Parts, follower: Parts, request_: object
) -> None:
    with pytest.raises(RequestRejected) as refused:
        await follower.ask(request_)  # type: ignore[arg-type]
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert leader_in(refused.value.remark) == leader.replica.address
    assert leader.core.store.max_offset("t", 0) == 1


async def test_an_offset_that_is_committed_here_is_the_leader_s(
    leader: Parts, follower: Parts
) -> None:
    await leader.ask(group("g"))
    await follower.ask(commit("g", "t", 1))
    assert leader.core.tables.offsets.committed("g", "t", 0) == 1
    query = QueryConsumerOffset(consumer_group="g", topic="t", queue_id=0)
    await until(lambda: follower.core.tables.offsets.committed("g", "t", 0) == 1)
    assert (await follower.ask(query)).offset == 1


async def test_while_nobody_leads_nothing_is_passed_on(follower: Parts) -> None:
    await follower.replica.follow(None)
    with pytest.raises(RequestRejected, match="has no leader now"):
        await follower.ask(commit("g", "t", 1))


async def test_a_code_that_nobody_knows_is_not_said_to_be_a_leaders(follower: Parts) -> None:
    answer = await follower.board.answer(Command(code=9999, opaque=1), None)  # type: ignore[arg-type]
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


async def test_where_slaves_are_not_read_a_pull_is_refused(tmp_path: Path) -> None:
    async with replica_parts(tmp_path, 2, slave_read=False) as closed:
        with pytest.raises(RequestRejected, match="slaveReadEnable is off"):
            await closed.ask(PULL)
        assert (await closed.ask(GetMaxOffset(topic="t", queue_id=0))).offset == 0


async def test_requests_of_this_process_are_answered_here_or_sent_to_the_leader(
    follower: Parts,
) -> None:
    peer: Any = None
    found = await follower.board.ask(GetMaxOffset(topic="t", queue_id=0), peer, None, None)
    assert found.offset == follower.core.store.max_offset("t", 0)
    with pytest.raises(RequestRejected, match="not the master"):
        await follower.board.ask(commit("g", "t", 1), peer, None, None)
