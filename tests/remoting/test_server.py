"""A listening port."""

from __future__ import annotations

import asyncio

import pytest

from rocketpipe.protocol.command import Command
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.remoting.caller import split_address
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.remoting.router import Router
from rocketpipe.remoting.server import Server


async def test_the_real_port_is_known_before_anyone_is_accepted() -> None:
    async with Server.bound("127.0.0.1", 0) as server:
        host, port = split_address(server.address)
        assert host == "127.0.0.1"
        assert port > 0


async def test_a_taken_port_is_an_os_error_that_names_it() -> None:
    async with Server.bound("127.0.0.1", 0) as first:
        _, port = split_address(first.address)
        with pytest.raises(OSError, match=rf"cannot listen on 127.0.0.1:{port} \(.*in use"):
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
