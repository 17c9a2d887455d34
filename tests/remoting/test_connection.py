"""One socket between two peers, with real sockets on both ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.waiting import until

from rocketpipe.errors import CallTimeout, ConnectionLost, RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.connection import Connection
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.request import to_command
from rocketpipe.protocol.requests.offsets import GetMinOffset, OffsetReply
from rocketpipe.remoting.caller import Caller, split_address
from rocketpipe.remoting.connection import ConnectionLimits, PeerConnection
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.remoting.server import Server


class Waiting:
    """Answers queue 0 at once, others when it is let go; counts who waits."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.asked = 0

    @handles(GetMinOffset)
    async def least(self, request: GetMinOffset, call: Call) -> OffsetReply:
        self.asked += 1
        if request.queue_id:
            await self.go.wait()
        return OffsetReply(offset=QueueOffset(request.queue_id))


def ask(queue_id: int) -> GetMinOffset:
    return GetMinOffset(topic="t", queue_id=queue_id)


@asynccontextmanager
async def connected(
    handlers: Waiting, limits: ConnectionLimits | None = None
) -> AsyncIterator[tuple[str, PeerConnection]]:
    async with Server.bound("127.0.0.1", 0, limits=limits) as server:
        async with server.serving(Router(handlers).answer), Caller() as caller:
            yield server.address, await caller.connect(server.address)


async def test_answers_come_in_any_order_and_reach_who_asked() -> None:
    handlers = Waiting()
    async with connected(handlers) as (_, peer):
        slow = asyncio.create_task(peer.call(ask(1), 5000))
        assert (await peer.call(ask(0), 5000)).offset == 0
        assert not slow.done()
        handlers.go.set()
        assert (await slow).offset == 1


async def test_a_call_without_an_answer_in_time_says_who_and_what() -> None:
    handlers = Waiting()
    async with connected(handlers) as (address, peer):
        with pytest.raises(CallTimeout, match=rf"{address}: no answer to GetMinOffset within 1 ms"):
            await peer.call(ask(1), 1)
        handlers.go.set()  # the late answer is ignored
        assert (await peer.call(ask(0), 5000)).offset == 0


async def test_whoever_waits_when_the_connection_ends_is_told() -> None:
    handlers = Waiting()
    async with connected(handlers) as (_, peer):
        waiting = asyncio.create_task(peer.call(ask(1), 5000))
        await until(lambda: handlers.asked == 1)
        peer.abort()
        with pytest.raises(ConnectionLost):
            await waiting
        with pytest.raises(ConnectionLost, match="has ended"):
            await peer.call(ask(0), 5000)


async def test_a_oneway_request_is_carried_out_and_not_answered() -> None:
    handlers = Waiting()
    async with connected(handlers) as (address, _):
        reader, writer = await asyncio.open_connection(*split_address(address))
        writer.write(encode_frame(to_command(ask(0), opaque=1, oneway=True)))
        writer.write(encode_frame(to_command(ask(0), opaque=2)))
        first = await reader.read(4096)
        assert handlers.asked == 2
        assert b'"opaque":2' in first
        assert b'"opaque":1' not in first
        writer.close()


@pytest.mark.parametrize(
    "bad",
    [
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x08\x02\x00\x00\x04{}{}",
        b"GET / HTTP",
    ],
)
async def test_bytes_that_are_no_frames_end_the_connection_and_nobody_elses(bad: bytes) -> None:
    async with connected(Waiting()) as (address, peer):
        reader, writer = await asyncio.open_connection(*split_address(address))
        writer.write(bad)
        assert await reader.read() == b""
        assert (await peer.call(ask(0), 5000)).offset == 0
        writer.close()


async def test_what_came_before_a_broken_frame_is_still_carried_out() -> None:
    handlers = Waiting()
    async with connected(handlers) as (address, _):
        reader, writer = await asyncio.open_connection(*split_address(address))
        writer.write(encode_frame(to_command(ask(0), opaque=1)) + b"\xff\xff\xff\xff")
        await reader.read()
        writer.close()
        await until(lambda: handlers.asked == 1)


async def test_a_peer_with_too_many_open_requests_is_not_read_until_some_are_answered() -> None:
    handlers = Waiting()
    async with connected(handlers, ConnectionLimits(max_requests=4)) as (_, peer):
        calls = [asyncio.create_task(peer.call(ask(1), 5000))]
        await until(lambda: handlers.asked == 1)
        calls += [asyncio.create_task(peer.call(ask(1), 5000)) for _ in range(3)]
        await until(lambda: handlers.asked == 4)
        late = asyncio.create_task(peer.call(ask(0), 5000))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not late.done()
        handlers.go.set()
        assert (await late).offset == 0
        await asyncio.gather(*calls)


async def test_a_refusal_is_raised_at_the_caller() -> None:
    async with connected(Waiting()) as (_, peer):
        command = Command(code=9999, opaque=1)
        assert command.code == 9999
        with pytest.raises(RequestRejected, match="not supported"):
            await peer.call(_Unserved(), 5000)


class _Unserved(GetMinOffset):
    """A request under a code that nobody serves."""

    def __init__(self) -> None:
        super().__init__(topic="t", queue_id=0)

    @property
    def code(self) -> int:  # type: ignore[override]
        return 9999


async def test_a_frame_that_its_sender_wrote_is_answered_by_a_command_or_what_it_reads() -> None:
    async with connected(Waiting()) as (_, peer):
        loop = asyncio.get_running_loop()
        for read, kind in ((None, Command), (lambda *_: None, Command), (_opaque_at, _Opaque)):
            opaque = peer.next_opaque()
            answer = loop.create_future()
            peer.ask(opaque, encode_frame(to_command(ask(0), opaque)), answer, read)
            told = await answer
            assert type(told) is kind
            assert told.opaque == opaque
        peer.ask(5, encode_frame(to_command(ask(0), 5, oneway=True)), None)
        assert (await peer.call(ask(0), 5000)).offset == 0


async def test_an_answer_that_was_forgotten_reaches_nobody() -> None:
    handlers = Waiting()
    async with connected(handlers) as (_, peer):
        answer = asyncio.get_running_loop().create_future()
        peer.ask(7_000, encode_frame(to_command(ask(1), 7_000)), answer, _opaque_at)
        await until(lambda: handlers.asked == 1)
        peer.forget(7_000)
        assert peer.asking == 0
        handlers.go.set()
        assert (await peer.call(ask(0), 5000)).offset == 0
        assert not answer.done()


async def test_a_frame_for_a_peer_that_is_gone_is_refused_and_one_under_way_is_told() -> None:
    handlers = Waiting()
    async with connected(handlers) as (_, peer):
        answer = asyncio.get_running_loop().create_future()
        peer.ask(7_000, encode_frame(to_command(ask(1), 7_000)), answer)
        await until(lambda: handlers.asked == 1)
        peer.abort()
        with pytest.raises(ConnectionLost):
            await answer
        with pytest.raises(ConnectionLost, match="has ended"):
            peer.ask(8_000, b"", None)


class _Opaque:
    def __init__(self, opaque: int) -> None:
        self.opaque = opaque


def _opaque_at(buffer: bytes, at: int, body: int) -> _Opaque | None:
    (command,) = Connection().receive(buffer[at:])
    return _Opaque(command.opaque)
