"""Calls on sockets, by clients that need not behave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from tests.proxy.front.ports import CHAT, CHUNK, ECHO, FLOOD, WAIT, Open, opened, rpc_limits
from tests.proxy.support.raw_http2 import RawClient, block, message
from tests.waiting import until

from rocketpipe.proxy.http2 import frames
from rocketpipe.proxy.http2.frames import ErrorCode, frame
from rocketpipe.proxy.rpc.codes import StatusCode


@asynccontextmanager
async def raw(**limits: Any) -> AsyncIterator[tuple[Open, RawClient]]:
    """A port, and one connection to it."""
    async with opened(server_limits=rpc_limits(**limits)) as port:
        client = await RawClient.opened(port.host, port.number)
        try:
            yield port, client
        finally:
            client.close()


def code(status: dict[str, str]) -> StatusCode:
    return StatusCode(int(status["grpc-status"]))


async def test_many_calls_at_once_are_answered_each() -> None:
    async with opened(server_limits=rpc_limits()) as port, port.channel() as channel:
        echo = channel.unary_unary(ECHO)
        asked = [b"%d" % n * (n % 7 * 10_000) for n in range(300)]
        assert await asyncio.gather(*map(echo, asked)) == asked


async def test_a_stream_of_both_sides_ends_when_its_client_has_said_all() -> None:
    async with opened() as port, port.channel() as channel:
        stream = channel.stream_stream(CHAT)()
        for said in (b"a", b"", b"x" * 300_000):
            await stream.write(said)
            assert await stream.read() == said
        await stream.done_writing()
        assert await stream.read() is grpc.aio.EOF
        assert await stream.code() is grpc.StatusCode.OK


async def test_who_gives_up_is_not_served_any_more() -> None:
    async with raw() as (port, client):
        client.call(1, WAIT)
        await until(lambda: port.service.waiting == 1)
        client.writer.write(frames.reset(1, ErrorCode.CANCEL))
        await until(lambda: port.service.waiting == 0)
        client.call(3, WAIT)
        await until(lambda: port.service.waiting == 1)
        client.close()
        await until(lambda: port.service.waiting == 0)
        await until(lambda: not port.server.calls)


async def test_a_deadline_ends_a_call() -> None:
    async with raw() as (port, client):
        client.call(1, WAIT, b"", ("grpc-timeout", "1m"))
        assert code(await client.status(1)) is StatusCode.DEADLINE_EXCEEDED
        await until(lambda: port.service.waiting == 0)


async def test_a_reader_that_takes_nothing_is_dropped_and_its_connection_stays() -> None:
    async with raw(patience_s=0.05) as (port, client):
        client.call(1, FLOOD)  # and no window is ever opened
        assert await client.status(1) == {"reset": str(int(ErrorCode.CANCEL))}
        assert port.server.unread.bytes == 0
        await until(lambda: not port.server.calls)
        client.writer.write(frames.window(0, 1 << 20))
        client.call(3, ECHO, b"still there")
        assert code(await client.status(3)) is StatusCode.OK


async def test_a_reader_that_takes_a_byte_at_a_time_is_dropped_too() -> None:
    async with raw(patience_s=0.05) as (_, client):
        client.call(1, FLOOD)

        async def drip() -> None:
            while True:
                client.writer.write(frames.window(0, 1) + frames.window(1, 1))
                await asyncio.sleep(0.005)

        dripping = asyncio.create_task(drip())
        assert await client.status(1) == {"reset": str(int(ErrorCode.CANCEL))}
        dripping.cancel()


async def test_a_reader_that_is_slow_but_reads_has_all() -> None:
    async with raw() as (port, client):
        client.call(1, ECHO, b"x" * 60_000)
        client.call(3, ECHO, b"y" * 60_000)  # beyond the connection's window
        await until(lambda: port.server.unread.bytes)
        (peer,) = port.front._peers
        calls = peer._calls
        assert calls is not None
        (waiting,) = calls.connection.waiting
        client.writer.write(frames.window(0, 20_000))
        await until(lambda: waiting.sent - waiting.seen >= 16_384)
        calls._look()  # as it does when its patience is over
        assert not waiting.is_over
        client.writer.write(frames.window(0, 100_000))
        taken, ended = 0, 0
        while ended < 2:
            kind, flags, _, payload = await client.next()
            taken += len(payload) if kind == frames.DATA else 0
            ended += kind == frames.HEADERS and bool(flags & frames.END_STREAM)
        assert taken == 120_010


async def test_a_request_that_does_not_come_whole_is_ended() -> None:
    async with raw(patience_s=0.05) as (port, client):
        client.begin(1, ECHO)
        client.begin(3, ECHO)
        client.writer.write(frame(frames.DATA, 0, 3, message(b"x" * 100)[:50]))
        assert code(await client.status(1)) is StatusCode.DEADLINE_EXCEEDED
        assert code(await client.status(3)) is StatusCode.DEADLINE_EXCEEDED
        assert (port.server.coming, port.server.unfinished_bytes) == (0, 0)


async def test_requests_that_have_come_in_part_are_bounded() -> None:
    async with raw(unfinished_bytes=50_000) as (port, client):
        part = message(b"x" * 30_000)[:10_000]
        for number in range(1, 13, 2):
            client.begin(number, ECHO)
            client.writer.write(frame(frames.DATA, 0, number, part))
        refused = await client.status(9)
        assert code(refused) is StatusCode.RESOURCE_EXHAUSTED
        assert port.server.unfinished_bytes <= 50_000
        client.close()
        await until(lambda: port.server.unfinished_bytes == 0 and port.server.coming == 0)


async def test_calls_are_bounded_also_those_that_have_not_come_whole() -> None:
    async with raw(calls=2) as (port, client):
        client.call(1, WAIT)
        client.begin(3, ECHO)
        client.call(5, ECHO)
        assert code(await client.status(5)) is StatusCode.RESOURCE_EXHAUSTED
        client.writer.write(frames.reset(3, ErrorCode.CANCEL))
        client.call(7, ECHO)
        assert code(await client.status(7)) is StatusCode.OK
        assert port.service.waiting == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", StatusCode.INTERNAL),  # no message at all
        (message(b"abc")[:-1], StatusCode.INTERNAL),
        (message(b"abc") + b"x", StatusCode.INTERNAL),
        (message(b"abc") + message(b"d"), StatusCode.INTERNAL),
        (message(b"abc", packed=1), StatusCode.UNIMPLEMENTED),
        (b"\0\xff\xff\xff\xff", StatusCode.RESOURCE_EXHAUSTED),
    ],
)
async def test_what_is_no_request_is_refused(body: bytes, status: StatusCode) -> None:
    async with raw() as (_, client):
        client.begin(1, ECHO)
        client.writer.write(frame(frames.DATA, frames.END_STREAM, 1, body))
        assert code(await client.status(1)) is status
        client.call(3, ECHO, b"a")
        assert code(await client.status(3)) is StatusCode.OK


async def test_what_is_no_call_is_told_in_http() -> None:
    async with raw() as (_, client):
        get = block(ECHO).replace(b"\x04POST", b"\x03GET")
        client.writer.write(frame(frames.HEADERS, 5, 1, get))
        assert await client.status(1) == {":status": "405"}
        other = block(ECHO).replace(b"\x10application/grpc", b"\x10application/json")
        client.writer.write(frame(frames.HEADERS, 5, 3, other))
        assert await client.status(3) == {":status": "415"}
        client.call(5, "/no/Method")
        assert code(await client.status(5)) is StatusCode.UNIMPLEMENTED


async def test_who_resets_as_fast_as_it_asks_is_sent_away_and_others_are_served() -> None:
    async with raw() as (port, client), port.channel() as channel:
        for number in range(1, 5000, 2):
            client.call(number, WAIT)
            client.writer.write(frames.reset(number, ErrorCode.CANCEL))
        assert await client.goodbye() == ErrorCode.ENHANCE_YOUR_CALM
        await until(lambda: port.service.waiting == 0 and not port.server.calls)
        assert await channel.unary_unary(ECHO)(b"a") == b"a"


async def test_who_goes_on_sending_while_it_is_sent_away_reads_why() -> None:
    async with raw() as (_port, client):
        client.writer.write(frame(frames.SETTINGS, 0, 1, b"") + bytes(2 << 20))
        assert await client.goodbye() == ErrorCode.PROTOCOL


async def test_who_floods_a_stream_of_both_sides_is_read_as_fast_as_it_is_served() -> None:
    async with raw() as (port, client):
        client.begin(1, CHAT)
        one = frame(frames.DATA, 0, 1, message(b"") * 3000)
        client.writer.write(one * 4)  # all that its window lets, in twelve thousand messages
        answered = 0
        while answered < 12_000 * 5:
            kind, _, _, payload = await client.next()
            answered += len(payload) if kind == frames.DATA else 0
        client.close()
        await until(lambda: not port.server.calls)


async def test_when_it_stops_who_waits_is_told() -> None:
    async with opened() as port:
        client = await RawClient.opened(port.host, port.number)
        client.call(1, WAIT)
        await until(lambda: port.service.waiting == 1)
        stopping = asyncio.create_task(port.server.stop(0.01))
        assert code(await client.status(1)) is StatusCode.UNAVAILABLE
        await stopping
        assert port.service.waiting == 0
        client.call(3, ECHO)
        assert await client.status(3) == {"reset": str(int(ErrorCode.REFUSED_STREAM))}
        client.close()


async def test_a_stream_without_end_is_bounded_by_what_is_read() -> None:
    async with opened() as port, port.channel() as channel:
        stream = channel.unary_stream(FLOOD)(b"")
        for _ in range(20):
            assert len(await stream.read()) == CHUNK
        await until(lambda: port.server.unread.bytes)  # it waits, as nobody reads on
        stream.cancel()
        await until(lambda: not port.server.calls)
