"""Connections to the gRPC port: slow ones, too many of them, and their end."""

from __future__ import annotations

import asyncio
import socket

from tests.proxy.front.ports import ECHO, FLOOD, WAIT, opened
from tests.proxy.support.raw_http2 import RawClient
from tests.waiting import until

from rocketpipe.metrics import render
from rocketpipe.proxy.http2 import frames
from rocketpipe.proxy.http2.frames import PREFACE, ErrorCode

#: An empty SETTINGS frame, by which a client goes on.
SETTINGS = b"\0\0\0\4\0\0\0\0\0"


async def test_a_preface_that_comes_byte_by_byte_is_one() -> None:
    async with opened() as port:
        reader, writer = await port.connect()
        for at in range(len(PREFACE)):
            writer.write(PREFACE[at : at + 1])
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(SETTINGS)
        assert (await reader.readexactly(4))[3] == 4  # the server's own SETTINGS
        writer.close()


async def test_a_client_that_is_slow_with_its_preface_has_no_more_time_for_it() -> None:
    async with opened(first_bytes_s=0.2) as port:
        reader, writer = await port.connect()
        writer.write(PREFACE[:10])
        assert await reader.read() == b""
        writer.close()
        assert '{why="late"} 1' in render(port.front.families())


async def test_what_a_client_does_not_take_is_not_kept_for_it_and_then_it_goes() -> None:
    async with opened(stalled_s=0.5) as port:
        stalled = socket.socket()
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stalled.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(stalled, (port.host, port.number))
        await loop.sock_sendall(stalled, _asking_for_much())
        await until(lambda: '{why="stalled"} 1' in render(port.front.families()))
        assert port.service.flooded < 64
        stalled.close()
        await until(lambda: port.front.connections == 0)


async def test_a_client_without_a_call_is_let_go_though_it_says_something_all_the_time() -> None:
    async with opened(idle_s=50.0) as port:
        client = await RawClient.opened(port.host, port.number)
        client.call(1, ECHO)
        await client.status(1)
        (peer,) = port.front._peers
        now_s = asyncio.get_running_loop().time()
        peer.look(now_s + 40)  # it had a call since
        peer._heard_s = now_s + 85  # a ping, say
        peer.look(now_s + 85)
        assert port.front.connections == 1
        peer._heard_s = now_s + 95
        peer.look(now_s + 95)
        assert await client.goodbye() == ErrorCode.NO_ERROR
        client.close()


async def test_a_client_that_says_nothing_is_asked_and_then_sent_away() -> None:
    async with opened(idle_s=1e9, silent_s=60.0) as port:
        client = await RawClient.opened(port.host, port.number)
        client.call(1, WAIT)
        await until(lambda: port.service.waiting)
        (peer,) = port.front._peers
        now_s = asyncio.get_running_loop().time()
        peer.look(now_s + 61)
        while (await client.next())[0] != frames.PING:
            pass
        peer.look(now_s + 100)
        assert port.service.waiting
        client.writer.write(frames.frame(frames.PING, frames.ACK, 0, bytes(8)))
        await until(lambda: peer._heard_s > now_s)
        now_s = peer._heard_s
        peer.look(now_s + 61)
        peer.look(now_s + 121)
        await until(lambda: not port.service.waiting)
        assert '{why="silent"} 1' in render(port.front.families())
        client.close()


async def test_a_client_that_sends_no_more_is_let_go() -> None:
    async with opened() as port:
        reader, writer = await port.connect()
        writer.write(PREFACE + SETTINGS)
        writer.write_eof()
        assert (await reader.readexactly(4))[3] == 4
        await reader.read()  # to the end
        writer.close()
        await until(lambda: port.front.connections == 0)


async def test_clients_that_are_gone_are_forgotten() -> None:
    async with opened() as port:
        channels = [port.channel() for _ in range(20)]
        await asyncio.gather(*(channel.unary_unary(ECHO)(b"a") for channel in channels))
        assert port.front.connections >= 1
        for channel in channels:
            await channel.close()
        await until(lambda: port.front.connections == 0)


def _asking_for_much() -> bytes:
    """A client that opens all windows, asks for a stream without end, and reads nothing."""
    settings = b"\0\0\x06\4\0\0\0\0\0" + b"\0\4\x7f\xff\xff\xff"
    window = b"\0\0\4\x08\0\0\0\0\0" + (0x7FFF0000).to_bytes(4, "big")
    headers = b"".join(
        b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value
        for name, value in (
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", FLOOD.encode()),
            (b":authority", b"localhost"),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
        )
    )
    asked = len(headers).to_bytes(3, "big") + b"\1\4" + (1).to_bytes(4, "big") + headers
    body = b"\0\0\5\0\1" + (1).to_bytes(4, "big") + bytes(5)
    return PREFACE + settings + window + asked + body
