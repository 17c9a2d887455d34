"""Fetching: what is asked for, what is kept, and what happens when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.client.consumer.support.fake_broker import PullDesk, found
from tests.client.consumer.support.records import queue, record
from tests.waiting import until

from rocketpipe.background import running
from rocketpipe.client.consumer.handling.handlers import subscription_to
from rocketpipe.client.consumer.pulling.loop import AGAIN_MS, HURRIED_MS, PullLoop, pull_request
from rocketpipe.client.consumer.pulling.read_ahead import FetchBuffer, ReadAhead, ReadLimits
from rocketpipe.client.session import Session
from rocketpipe.errors import RequestRejected
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.subscription import SQL92, TAG, Subscription
from rocketpipe.protocol.codes import RequestCode, ResponseCode
from rocketpipe.protocol.requests.routes import GetRouteInfoByTopic
from rocketpipe.remoting.router import Router
from rocketpipe.remoting.server import Server
from rocketpipe.testing.clock import ManualClock


def one_queue() -> PullDesk:
    desk = PullDesk()
    desk.topics["t"] = {"a": 1}
    return desk


@asynccontextmanager
async def pulling(
    desk: PullDesk,
    wanted: Subscription | None = None,
    *,
    limits: ReadLimits | None = None,
    clock: ManualClock | None = None,
) -> AsyncIterator[tuple[FetchBuffer, ReadAhead]]:
    wanted = wanted or subscription_to("t")
    buffer = FetchBuffer(limits or ReadLimits())
    async with Server.bound("127.0.0.1", 0) as server, server.serving(Router(desk).answer):
        desk.address = server.address
        async with Session(server.address, clock=clock) as session:
            loop = PullLoop(session, "g", buffer, lambda topic: wanted)
            place = buffer.open(queue(), QueueOffset(7))
            async with running(loop.run(place), "pulls"):
                yield buffer, place


async def test_each_pull_goes_on_where_the_last_one_ended_and_is_a_lite_one() -> None:
    desk = one_queue()
    desk.answers = [found(record(7), record(8), next_offset=9), found(next_offset=20)]
    async with pulling(desk) as (buffer, _):
        await until(lambda: len(desk.pulls) == 3)
        assert [pull.queue_offset for pull in desk.pulls] == [7, 9, 20]
        assert set(desk.codes) == {RequestCode.LITE_PULL_MESSAGE}
        pull = desk.pulls[0]
        wanted = PullFlag.SUSPEND | PullFlag.SUBSCRIPTION | PullFlag.LITE_PULL
        assert (pull.consumer_group, pull.topic, pull.queue_id) == ("g", "t", 0)
        assert (pull.sys_flag, pull.sub_version) == (wanted, 0)
        assert (pull.subscription, pull.expression_type) == ("*", TAG)
        assert (pull.suspend_timeout_millis, pull.commit_offset) == (20_000, 0)
        taken = buffer.take(9)
        assert taken is not None
        assert [message.queue_offset for message in taken[1]] == [7, 8]
        assert taken[0].position == 20


async def test_a_broker_before_5_0_is_asked_for_plain_pulls() -> None:
    desk = one_queue()
    desk.answers = [
        RequestRejected(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "request type 361 not supported"),
        found(record(7), next_offset=8),
    ]
    async with pulling(desk) as (buffer, _):
        await until(lambda: len(desk.pulls) == 3)
        assert desk.codes == [RequestCode.LITE_PULL_MESSAGE, *2 * [RequestCode.PULL_MESSAGE]]
        assert [pull.queue_offset for pull in desk.pulls] == [7, 7, 8]
        assert buffer.take(9) is not None


async def test_tags_that_only_share_a_hash_are_left_out() -> None:
    desk = one_queue()
    # "Aa" and "BB" have the same Java hash, so a broker cannot tell them apart.
    desk.answers = [found(record(7, tags="BB"), record(8, tags="Aa"), record(9), next_offset=10)]
    async with pulling(desk, subscription_to("t", tags="Aa")) as (buffer, _):
        await until(lambda: len(desk.pulls) == 2)
        taken = buffer.take(9)
        assert taken is not None
        assert [message.queue_offset for message in taken[1]] == [8]
        assert desk.pulls[0].subscription == "Aa"


async def test_sql_goes_along_with_its_version() -> None:
    desk = one_queue()
    async with pulling(desk, subscription_to("t", sql="price > 5", version=77)):
        await until(lambda: len(desk.pulls) == 1)
        pull = desk.pulls[0]
        assert (pull.subscription, pull.expression_type, pull.sub_version) == (
            "price > 5",
            SQL92,
            77,
        )


async def test_an_offset_that_the_queue_does_not_have_is_corrected() -> None:
    desk = one_queue()
    moved = found(next_offset=50)
    object.__setattr__(moved, "code", ResponseCode.PULL_OFFSET_MOVED)
    desk.answers = [moved]
    async with pulling(desk) as (_, place):
        await until(lambda: len(desk.pulls) == 2)
        assert desk.pulls[1].queue_offset == place.position == place.done == 50


async def test_nothing_is_asked_for_while_there_is_no_room() -> None:
    desk = one_queue()
    desk.answers = [found(record(7), record(8), next_offset=9)]
    async with pulling(desk, limits=ReadLimits(messages=2)) as (buffer, place):
        await until(lambda: len(buffer) == 2)
        waiting = asyncio.ensure_future(buffer.room(place))
        await asyncio.sleep(0)
        assert not waiting.done()
        assert len(desk.pulls) == 1
        buffer.take(1)
        await waiting
        await until(lambda: len(desk.pulls) == 2)


async def test_a_refusal_is_told_and_the_pull_tried_again() -> None:
    clock, desk = ManualClock(), one_queue()
    refusal = RequestRejected(ResponseCode.NO_PERMISSION, "the topic may not be read")
    desk.answers = [refusal, found(record(7), next_offset=8)]
    async with pulling(desk, clock=clock) as (buffer, _):
        await buffer.arrival()
        told = buffer.failure()
        assert isinstance(told, RequestRejected)
        assert told.remark == "the topic may not be read"
        await clock.advance(AGAIN_MS)
        await until(lambda: len(buffer) == 1)


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL])
async def test_a_broker_that_is_busy_is_asked_again_and_nobody_is_told(code: int) -> None:
    clock, desk = ManualClock(), one_queue()
    desk.answers = [RequestRejected(code, "busy"), found(record(7), next_offset=8)]
    async with pulling(desk, clock=clock) as (buffer, _):
        await until(lambda: not desk.answers or len(desk.pulls) == 1)
        while len(buffer) == 0:
            await clock.advance(AGAIN_MS)
            await asyncio.sleep(0.001)
        assert buffer.failure() is None


async def test_a_broker_that_is_gone_is_looked_for_anew() -> None:
    clock, desk = ManualClock(), one_queue()
    async with Server.bound("127.0.0.1", 0) as gone:
        nowhere = gone.address
    async with Server.bound("127.0.0.1", 0) as server, server.serving(Router(desk).answer):
        desk.address = nowhere
        async with Session(server.address, clock=clock) as session:
            buffer = FetchBuffer(ReadLimits())
            loop = PullLoop(session, "g", buffer, lambda topic: subscription_to("t"))
            desk.answers = [found(record(7), next_offset=8)]
            async with running(loop.run(buffer.open(queue(), QueueOffset(7))), "pulls"):
                await until(lambda: desk.count(GetRouteInfoByTopic) >= 1)
                desk.address = server.address
                while len(buffer) == 0:
                    await clock.advance(AGAIN_MS)
                    await asyncio.sleep(0.001)
                assert buffer.failure() is None


async def test_a_broker_that_does_not_let_pulls_wait_is_not_hurried() -> None:
    clock, desk = ManualClock(), one_queue()
    desk.answers = [found(next_offset=7), found(record(7), next_offset=8)]
    async with pulling(desk, clock=clock) as (buffer, _):
        await until(lambda: len(desk.answers) == 1)
        await clock.advance(HURRIED_MS - 1)
        assert len(desk.pulls) == 1
        while len(buffer) == 0:
            await clock.advance(HURRIED_MS)
            await asyncio.sleep(0.001)


async def test_what_is_no_message_is_told() -> None:
    desk = one_queue()
    desk.answers = [found(b"no record at all, but enough bytes", next_offset=8)]
    async with pulling(desk, clock=ManualClock()) as (buffer, _):
        await buffer.arrival()
        assert "byte" in str(buffer.failure())


async def test_a_topic_that_nobody_wants_any_more_is_not_pulled() -> None:
    async with Session("127.0.0.1:1") as session:
        buffer = FetchBuffer(ReadLimits())
        loop = PullLoop(session, "g", buffer, lambda topic: None)
        await loop.run(buffer.open(queue(), QueueOffset(0)))


def test_a_plain_pull_waits_unless_it_is_told_not_to() -> None:
    waiting = pull_request("g", queue(), QueueOffset(3), "A || B")
    assert waiting.code == RequestCode.PULL_MESSAGE
    assert waiting.sys_flag == PullFlag.SUSPEND | PullFlag.SUBSCRIPTION
    assert waiting.suspend_timeout_millis == 15_000
    at_once = pull_request("g", queue(), QueueOffset(3), "*", suspend_ms=0)
    assert at_once.sys_flag == PullFlag.SUBSCRIPTION


# Followers


async def test_pulls_go_where_it_is_suggested_and_to_a_follower_without_a_leader() -> None:
    desk, other = one_queue(), PullDesk()
    other.answers = [found(record(8), next_offset=9, broker_id=1)]
    async with Server.bound("127.0.0.1", 0) as server, server.serving(Router(other).answer):
        desk.answers = [found(record(7), next_offset=8, broker_id=1)]
        desk.replicas["a"] = {1: server.address}
        clock = ManualClock()
        async with pulling(desk, clock=clock) as (buffer, _):
            await until(lambda: len(other.pulls) == 1)  # there is no leader yet
            desk.replicas["a"] = {0: desk.address, 1: server.address}
            await until(lambda: len(other.pulls) == 2)
            taken = buffer.take(9)
            assert taken is not None
            assert [message.queue_offset for message in taken[1]] == [8]


async def test_what_a_follower_says_of_the_ends_of_a_queue_moves_nobody() -> None:
    desk, other = one_queue(), PullDesk()
    moved = replace(found(next_offset=3), code=ResponseCode.PULL_OFFSET_MOVED)
    other.answers = [moved, RequestRejected(13, "not here"), found(next_offset=2)]
    async with Server.bound("127.0.0.1", 0) as server, server.serving(Router(other).answer):
        desk.replicas["a"] = {1: server.address}
        clock = ManualClock()
        async with pulling(desk, clock=clock) as (buffer, place):
            while len(other.pulls) < 4:
                await clock.advance(HURRIED_MS)
                await asyncio.sleep(0.001)
            assert {pull.queue_offset for pull in other.pulls} == {7}
            assert (place.position, place.next_offset) == (7, 7)
            assert buffer.take(1) is None  # nor does the application hear of it
