"""Connections that the health port hands on: kept, bounded, and closed with the console."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route
from tests.remoting.tls_rooms import server_tls
from tests.waiting import PATIENCE_S, until

from rocketpipe.console import port
from rocketpipe.health.http_port import Watched, health_port
from rocketpipe.remoting.authority import Authority

closing: asyncio.Event


async def echo(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{request.method} {request.url.path} {len(await request.body())}")


async def slow(_: Request) -> PlainTextResponse:
    import gc

    gc.collect()  # who forgets the connection's writer closes it here
    await asyncio.sleep(0.05)
    gc.collect()
    return PlainTextResponse("slow")


async def stream(_: Request) -> StreamingResponse:
    async def events() -> AsyncIterator[bytes]:
        yield b": open\n\n"
        await closing.wait()

    return StreamingResponse(events(), media_type="text/event-stream")


async def flood(_: Request) -> StreamingResponse:
    async def much() -> AsyncIterator[bytes]:
        try:
            while True:
                yield bytes(1 << 16)
                await asyncio.sleep(0)
        finally:
            closing.set()

    return StreamingResponse(much())


APP = Starlette(
    routes=[
        Route("/flood", flood),
        Route("/echo", echo, methods=["GET", "POST"]),
        Route("/slow", slow),
        Route("/stream", stream),
    ]
)


@contextlib.asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[str]:
    global closing
    closing = asyncio.Event()
    watched = Watched()
    watched.started = True
    async with (
        port.speaking(APP) as more,
        health_port("127.0.0.1", 0, watched, more=more, **settings) as address,
    ):
        try:
            yield address
        finally:
            closing.set()


async def test_health_and_console_are_answered_at_one_port() -> None:
    async with (
        serving() as address,
        httpx.AsyncClient(base_url=f"http://{address}", timeout=PATIENCE_S) as client,
    ):
        assert (await client.get("/healthz")).text == "ok\n"
        for _ in range(3):
            assert (await client.get("/echo")).text == "GET /echo 0"
        for size in (0, 1, 100_000):
            answer = await client.post("/echo", content=bytes(size))
            assert answer.text == f"POST /echo {size}"
        assert (await client.get("/slow")).text == "slow"
        assert (await client.get("/nothing")).status_code == 404


async def test_the_same_over_tls(authority: Authority) -> None:
    trust = ssl.create_default_context(cafile=str(authority.ca_file))
    trust.check_hostname = False
    async with (
        serving(tls=server_tls(authority)) as address,
        httpx.AsyncClient(
            base_url=f"https://{address}", verify=trust, timeout=PATIENCE_S
        ) as client,
    ):
        assert (await client.get("/readyz")).text == "ready\n"
        assert (await client.post("/echo", content=b"x" * 50_000)).text == "POST /echo 50000"


async def test_open_streams_do_not_hold_up_the_end() -> None:
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        async with asyncio.timeout(PATIENCE_S):
            async with serving() as address:
                streams = [client.stream("GET", f"http://{address}/stream") for _ in range(5)]
                stack = contextlib.AsyncExitStack()
                for each in streams:
                    answer = await stack.enter_async_context(each)
                    assert answer.status_code == 200
            with contextlib.suppress(httpx.HTTPError):
                await stack.aclose()


async def test_the_idlest_goes_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port, "MAX_CONNECTIONS", 2)
    async with serving() as address:
        host, _, number = address.rpartition(":")
        peers = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection(host, int(number))
            writer.write(b"GET /echo HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await reader.readuntil(b"GET /echo 0")
            peers.append((reader, writer))
        await until(peers[0][0].at_eof)
        assert not peers[2][0].at_eof()
        for _, writer in peers:
            writer.close()


async def test_who_does_not_read_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nobody holds a stream, and what is written to it, for ever."""
    monkeypatch.setattr(port, "STUCK_S", 0.05)
    async with serving() as address:
        host, _, number = address.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(number), limit=1)
        writer.write(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            await closing.wait()
        writer.close()


async def test_what_is_no_http_and_what_is_too_long_is_refused() -> None:
    async with serving() as address:
        host, _, number = address.rpartition(":")
        for sent in (
            b"GET /echo HTTP/1.1\r\nHost: x\r\nBad Header\r\n\r\n",
            b"GET /echo HTTP/1.1\r\n" + b"a: " + b"x" * 9000 + b"\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection(host, int(number))
            writer.write(sent)
            assert (await reader.read()).split()[1] in (b"400", b"431")
            writer.close()
