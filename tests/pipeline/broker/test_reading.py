"""Queues that several brokers have: one that is behind is not taken for messages that are gone."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.client.consumer.support.fake_broker import PullDesk, desk_and_session, found
from tests.client.consumer.support.records import record

from rocketpipe.client.session import Session
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import EVERYTHING
from rocketpipe.pipeline.broker.reading import PATIENCE_MS, _Pulls
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.options.selection import Selection
from rocketpipe.pipeline.planning.ranges import QueueRange, ReadPartition
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.pulling import PullMessageReply
from rocketpipe.remoting.router import Router
from rocketpipe.remoting.server import Server
from rocketpipe.testing.clock import ManualClock

QUEUE = MessageQueue(topic="t", broker_name="a", queue_id=0)
PART = QueueRange(QUEUE, QueueOffset(7), QueueOffset(9))
#: What a broker says whose queue ends before the part.
SHORT = found(next_offset=5)
MOVED = replace(found(next_offset=50), code=ResponseCode.PULL_OFFSET_MOVED)


async def pulled(session: Session, clock: ManualClock, address: str) -> PullMessageReply:
    options = ReadOptions(selection=Selection(topics=("t",)))
    pulls = _Pulls(ReadPartition((PART,), {"a": address}), options, EVERYTHING, session)
    pulling = asyncio.create_task(pulls._pull(PART, PART.start, PART.end))
    while not pulling.done():
        await clock.advance(100)
        await asyncio.sleep(0.001)
    return pulling.result()


@pytest.mark.parametrize("said", [SHORT, MOVED])
async def test_what_a_follower_lacks_is_read_from_the_leader(said: PullMessageReply) -> None:
    clock, follower = ManualClock(), PullDesk()
    follower.answers = [said]
    async with desk_and_session(clock, t={"a": 1}) as (desk, session):
        desk.answers = [found(record(7), record(8), next_offset=9)]
        async with Server.bound("127.0.0.1", 0) as server:
            async with server.serving(Router(follower).answer):
                desk.replicas["a"] = {0: desk.address, 1: server.address}
                assert (await pulled(session, clock, server.address)).next_begin_offset == 9


async def test_a_leader_that_is_not_ready_yet_is_asked_again_but_not_for_ever() -> None:
    clock = ManualClock()
    async with desk_and_session(clock, t={"a": 1}) as (desk, session):
        desk.replicas["a"] = {0: desk.address, 1: "127.0.0.1:1"}
        desk.answers = [SHORT, SHORT, found(record(7), record(8), next_offset=9)]
        assert (await pulled(session, clock, desk.address)).messages
        desk.answers = [SHORT] * 1000
        began_ms = clock.monotonic_ms()
        assert not (await pulled(session, clock, desk.address)).messages
        assert clock.monotonic_ms() - began_ms >= PATIENCE_MS


async def test_a_broker_without_followers_is_believed_at_once() -> None:
    clock = ManualClock()
    async with desk_and_session(clock, t={"a": 1}) as (desk, session):
        for said in (SHORT, MOVED):
            desk.answers = [said]
            reply = await pulled(session, clock, desk.address)
            assert reply.next_begin_offset == said.next_begin_offset


async def test_what_a_leader_says_is_gone_is_gone() -> None:
    clock = ManualClock()
    async with desk_and_session(clock, t={"a": 1}) as (desk, session):
        desk.replicas["a"] = {0: desk.address, 1: "127.0.0.1:1"}
        desk.answers = [MOVED]
        assert (await pulled(session, clock, desk.address)).next_begin_offset == 50
