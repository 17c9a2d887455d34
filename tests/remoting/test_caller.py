"""Asking by address."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rocketpipe.errors import CallTimeout, ConnectionLost, ProcessForked, RequestRejected
from rocketpipe.protocol.requests.routes import GetAllTopics, TopicNames, TopicNamesReply
from rocketpipe.remoting.caller import Caller, split_address
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.remoting.server import Server


class Gate:
    """Answers when it is opened."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.reached = asyncio.Event()

    @handles(GetAllTopics)
    async def topics(self, request: GetAllTopics, call: Call) -> TopicNamesReply:
        self.reached.set()
        await self.open.wait()
        return TopicNamesReply(names=TopicNames())


@asynccontextmanager
async def listening(gate: Gate | None = None) -> AsyncIterator[str]:
    router = Router(gate) if gate else Router()
    async with Server.bound("127.0.0.1", 0) as server, server.serving(router.answer):
        yield server.address


async def test_everyone_who_asks_at_an_address_shares_one_connection() -> None:
    async with Server.bound("127.0.0.1", 0) as server, server.serving(Router().answer):
        async with Caller() as caller:
            first, second = await asyncio.gather(
                caller.connect(server.address), caller.connect(server.address)
            )
            assert first is second


async def test_a_lost_connection_is_made_anew_on_the_next_call() -> None:
    async with Server.bound("127.0.0.1", 0) as server, server.serving(Router().answer):
        async with Caller() as caller:
            first = await caller.connect(server.address)
            first.abort()
            await first.lost
            assert (await caller.connect(server.address)).is_open


async def test_nobody_there_is_told_with_the_address_and_the_reason() -> None:
    async with Server.bound("127.0.0.1", 0) as server:
        address = server.address
    async with Caller() as caller:
        with pytest.raises(
            ConnectionLost, match=rf"^{address}: cannot connect \(Connection refused\)$"
        ):
            await caller.connect(address)


async def test_all_who_wait_for_one_connection_fail_with_it() -> None:
    async with Server.bound("127.0.0.1", 0) as server:
        address = server.address
    async with Caller() as caller:
        failures = await asyncio.gather(
            *(caller.connect(address) for _ in range(3)), return_exceptions=True
        )
        assert [type(failure) for failure in failures] == [ConnectionLost] * 3
        assert failures[0] is failures[1] is failures[2]  # one attempt, not three


async def test_one_who_gives_up_does_not_take_the_connection_from_the_others() -> None:
    async with listening() as address, Caller() as caller:
        hasty = asyncio.create_task(caller.connect(address))
        patient = asyncio.create_task(caller.connect(address))
        await asyncio.sleep(0)
        hasty.cancel()
        assert (await patient).is_open


async def test_each_new_connection_is_told() -> None:
    told: list[str] = []
    async with listening() as address, Caller(on_connected=told.append) as caller:
        peer = await caller.connect(address)
        await caller.connect(address)
        assert told == [address]
        peer.abort()
        await peer.lost
        assert caller.connected(address) is None
        await caller.connect(address)
        assert told == [address, address]


async def test_too_many_connections_cost_the_oldest_that_nobody_waits_on() -> None:
    gate = Gate()
    async with listening(gate) as busy, listening() as idle, listening() as wanted:
        async with Caller(max_connections=2) as caller:
            asking = asyncio.create_task(caller.call(busy, GetAllTopics()))
            await gate.reached.wait()
            given_up = await caller.connect(idle)
            await caller.connect(wanted)
            await given_up.lost
            assert caller.connected(busy) is not None
            assert caller.connected(idle) is None
            gate.open.set()
            await asking


async def test_when_every_connection_is_waited_on_the_next_is_refused() -> None:
    gate = Gate()
    async with listening(gate) as busy, listening() as wanted:
        async with Caller(max_connections=1) as caller:
            asking = asyncio.create_task(caller.call(busy, GetAllTopics()))
            await gate.reached.wait()
            with pytest.raises(ConnectionLost, match="1 connections are open"):
                await caller.connect(wanted)
            gate.open.set()
            await asking
            assert (await caller.connect(wanted)).is_open


async def test_a_connection_that_nobody_used_for_long_is_closed() -> None:
    gate = Gate()
    async with listening(gate) as busy, listening() as quiet, Caller() as caller:
        idle = await caller.connect(quiet)
        asking = asyncio.create_task(caller.call(busy, GetAllTopics()))
        await gate.reached.wait()
        assert caller.close_idle(now_ms=0, idle_ms=100) == 0
        assert caller.close_idle(now_ms=99, idle_ms=100) == 0
        assert caller.close_idle(now_ms=100, idle_ms=100) == 1
        await idle.lost
        assert caller.connected(quiet) is None
        assert caller.connected(busy) is not None
        gate.open.set()
        await asking


async def test_using_a_connection_keeps_it() -> None:
    async with listening() as address, Caller() as caller:
        await caller.connect(address)
        caller.close_idle(now_ms=0, idle_ms=100)
        with pytest.raises(RequestRejected):
            await caller.call(address, GetAllTopics())
        assert caller.close_idle(now_ms=100, idle_ms=100) == 0
        assert caller.close_idle(now_ms=199, idle_ms=100) == 0
        assert caller.close_idle(now_ms=200, idle_ms=100) == 1


async def test_the_time_for_a_call_covers_connecting() -> None:
    async with listening(Gate()) as address, Caller() as caller:
        with pytest.raises(CallTimeout) as caught:
            await caller.call(address, GetAllTopics(), timeout_ms=50)
        assert caught.value.timeout_ms <= 50


async def test_after_its_block_a_caller_connects_no_more() -> None:
    async with listening() as address:
        async with Caller() as caller:
            opening = asyncio.create_task(caller.connect(address))
            await asyncio.sleep(0)
        with pytest.raises(ConnectionLost, match="this side is closing"):
            await opening
        with pytest.raises(ConnectionLost, match="closed already"):
            await caller.connect(address)


def exit_code_in_a_child(caller: Caller, address: str) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons dislike forks
        child = os.fork()
    if not child:  # nothing but this happens there: the loop is its parent's
        try:
            caller.connected(address)
        except ProcessForked as error:
            os._exit(7 if "open clients after the fork" in str(error) else 8)
        os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


async def test_a_child_process_is_told_that_the_connections_are_not_its_own() -> None:
    async with listening() as address, Caller() as caller:
        await caller.connect(address)
        assert exit_code_in_a_child(caller, address) == 7
        assert caller.connected(address) is not None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("127.0.0.1:9876", ("127.0.0.1", 9876)),
        ("[::1]:0", ("::1", 0)),
        ("host:65535", ("host", 65535)),
    ],
)
def test_an_address_has_two_parts(text: str, parts: tuple[str, int]) -> None:
    assert split_address(text) == parts


@pytest.mark.parametrize(
    "text",
    [
        *("", "host", "host:", ":1", "host:65536", "host:-1", "host:1x"),
        *("http://host:1", "a:1,b:1", "a:1;b:1", "a b:1"),
    ],
)
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        split_address(text)
