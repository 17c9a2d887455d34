"""A listening port."""

from __future__ import annotations

import asyncio
import resource
from contextlib import suppress

import pytest

from rocketpipe.errors import PortUnavailable
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.requests.offsets import GetMinOffset, OffsetReply
from rocketpipe.remoting.caller import Caller, split_address
from rocketpipe.remoting.connection import ConnectionLimits, PeerConnection
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.remoting.server import Server, most_connections
from rocketpipe.testing.clock import ManualClock


async def test_the_real_port_is_known_before_anyone_is_accepted() -> None:
    async with Server.bound("127.0.0.1", 0) as server:
        host, port = split_address(server.address)
        assert host == "127.0.0.1"
        assert port > 0


async def test_a_taken_port_is_an_os_error_that_names_it() -> None:
    async with Server.bound("127.0.0.1", 0) as first:
        _, port = split_address(first.address)
        with pytest.raises(
            PortUnavailable, match=f"cannot listen on 127.0.0.1:{port}: the port is taken"
        ):
            async with Server.bound("127.0.0.1", port):
                pass


async def test_the_end_of_the_block_closes_the_port_and_every_peer() -> None:
    lost: list[PeerConnection] = []
    async with Server.bound("127.0.0.1", 0) as server:
        address = split_address(server.address)
        async with server.serving(Router().answer, lost.append):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(encode_frame(Command(code=9999, opaque=1)))
            assert b"not supported" in await reader.read(4096)
        assert await reader.read() == b""
        writer.close()
    assert len(lost) == 1
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address)


class Held:
    """Answers when it is let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.asked = asyncio.Event()

    @handles(GetMinOffset)
    async def least(self, request: GetMinOffset, call: Call) -> OffsetReply:
        self.asked.set()
        await self.go.wait()
        return OffsetReply(offset=QueueOffset(7))


ASK = GetMinOffset(topic="t", queue_id=0)


async def test_what_was_asked_before_the_end_is_still_answered() -> None:
    held = Held()

    async def let_go() -> None:
        held.go.set()

    async with Caller() as caller, Server.bound("127.0.0.1", 0) as server:
        async with server.serving(Router(held).answer, on_close=let_go):
            asking = asyncio.create_task(caller.call(server.address, ASK, 5000))
            await held.asked.wait()
        assert (await asking).offset == 7


async def test_one_peer_too_many_is_sent_away_and_the_others_stay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    held = Held()
    held.go.set()
    async with Caller() as caller, Server.bound("127.0.0.1", 0) as server:
        async with server.serving(Router(held).answer, max_connections=2):
            assert (await caller.call(server.address, ASK, 5000)).offset == 7
            extra = [await asyncio.open_connection(*split_address(server.address))]
            for _ in range(50):
                reader, writer = await asyncio.open_connection(*split_address(server.address))
                assert await reader.read() == b""
                writer.close()
            assert (await caller.call(server.address, ASK, 5000)).offset == 7
            extra[0][1].close()
    lines = [line for line in caplog.messages if "2 connections are the most" in line]
    assert 0 < len(lines) <= 20


async def test_a_peer_that_never_asks_is_sent_away_in_time() -> None:
    clock = ManualClock()
    async with Server.bound("127.0.0.1", 0) as server:
        async with server.serving(Router().answer, clock=clock):
            reader, writer = await asyncio.open_connection(*split_address(server.address))
            closed = asyncio.create_task(reader.read())
            while not closed.done():
                await clock.advance(1000)
                assert clock.monotonic_ms() < 60_000
            assert clock.monotonic_ms() >= 10_000
            writer.close()


async def until_the_end(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        while await reader.read(1 << 20):
            pass


class Much:
    """Answers with much."""

    def __init__(self) -> None:
        self.begun = 0

    async def answer(self, command: Command, peer: PeerConnection) -> Command:
        self.begun += 1
        return Command(code=0, opaque=command.opaque, flag=1, body=bytes(1 << 20))


async def test_answers_to_a_peer_that_does_not_read_are_not_begun() -> None:
    clock, much = ManualClock(), Much()
    limits = ConnectionLimits(max_unsent_bytes=1 << 20)
    async with Server.bound("127.0.0.1", 0, limits=limits) as server:
        async with server.serving(much.answer, clock=clock):
            reader, writer = await asyncio.open_connection(*split_address(server.address), limit=1)
            writer.write(b"".join(encode_frame(Command(code=1, opaque=n)) for n in range(500)))
            await writer.drain()
            while much.begun < 2:  # noqa: ASYNC110 - the server counts, not we
                await asyncio.sleep(0)
            for _ in range(100):
                await clock.advance(1000)
            # The kernel's buffers hold some megabytes, and ours two.
            assert much.begun < 50
            await until_the_end(reader)
            writer.close()


def test_some_descriptors_are_kept_for_files() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 1 <= most_connections() < soft
    assert most_connections(5) == 5
    assert most_connections(1 << 40) == most_connections()
