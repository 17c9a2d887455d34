"""What reaches a follower and is the leader's to answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.broker.support.asking import commit

from rocketpipe.broker.handlers import passing_on
from rocketpipe.broker.handlers.passing_on import PassOn
from rocketpipe.coordination.coordinator import Leader
from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.refusals import leader_in, stored_nothing
from rocketpipe.protocol.request import to_command
from rocketpipe.protocol.requests.offsets import UpdateConsumerOffset
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.remoting.server import Server

ASK = to_command(commit("g", "t", 5), 17)


class Keeper:
    """A leader that keeps offsets, or says why not."""

    def __init__(self) -> None:
        self.kept: list[UpdateConsumerOffset] = []
        self.refusal: RequestRejected | None = None
        self.answers = asyncio.Event()
        self.answers.set()

    @handles(UpdateConsumerOffset)
    async def commit(self, request: UpdateConsumerOffset, call: Call) -> None:
        await self.answers.wait()
        if self.refusal is not None:
            raise self.refusal
        self.kept.append(request)


@asynccontextmanager
async def leading(keeper: Keeper) -> AsyncIterator[Leader]:
    async with Server.bound("127.0.0.1", 0) as server:
        async with server.serving(Router(keeper).answer):
            yield Leader(id=1, epoch=1, address=server.address, ha_address="127.0.0.1:1")


async def answer(caller: Caller, leader: Leader | None, command: Command = ASK) -> Command:
    return await PassOn(caller, lambda: leader).answer(UpdateConsumerOffset, command)


async def test_the_leader_is_asked_the_same_and_its_answer_comes_back() -> None:
    keeper = Keeper()
    async with leading(keeper) as leader, Caller() as caller:
        reply = await answer(caller, leader)
        assert (reply.code, reply.opaque) == (ResponseCode.SUCCESS, 17)
        assert keeper.kept == [commit("g", "t", 5)]
        keeper.refusal = RequestRejected(ResponseCode.TOPIC_NOT_EXIST, "no such topic")
        reply = await answer(caller, leader)
    assert (reply.code, reply.remark) == (ResponseCode.TOPIC_NOT_EXIST, "no such topic")


@pytest.mark.parametrize("leader", [None, Leader(id=0, epoch=0, address="", ha_address="h:1")])
async def test_a_leader_that_is_not_known_is_said_to_be_so(leader: Leader | None) -> None:
    async with Caller() as caller:
        reply = await answer(caller, leader)
    assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert leader_in(reply.remark or "") is None


async def test_of_a_leader_that_does_not_answer_nobody_says_that_it_stored_nothing() -> None:
    async with leading(Keeper()) as gone:
        pass
    async with Caller() as caller:
        reply = await answer(caller, gone)
    assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert gone.address in (reply.remark or "")
    assert not stored_nothing(reply.code, reply.remark or "")


async def test_what_cannot_be_read_is_not_passed_on() -> None:
    keeper = Keeper()
    async with leading(keeper) as leader, Caller() as caller:
        reply = await answer(caller, leader, Command(code=ASK.code, opaque=3))
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert not keeper.kept


async def test_too_many_at_once_ask_the_leader_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passing_on, "MOST", 1)
    keeper = Keeper()
    keeper.answers.clear()
    async with leading(keeper) as leader, Caller() as caller:
        pass_on = PassOn(caller, lambda: leader)
        first = asyncio.create_task(pass_on.answer(UpdateConsumerOffset, ASK))
        await asyncio.sleep(0)
        second = await pass_on.answer(UpdateConsumerOffset, ASK)
        assert leader_in(second.remark or "") == leader.address
        keeper.answers.set()
        assert (await first).code == ResponseCode.SUCCESS
        assert (await pass_on.answer(UpdateConsumerOffset, ASK)).code == ResponseCode.SUCCESS
