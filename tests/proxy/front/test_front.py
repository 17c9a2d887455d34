"""TLS and plaintext on the gRPC port, and who is sent away there."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import grpc
import pytest
from tests.proxy.front.ports import ECHO, WHO, opened, shaking, tls_of
from tests.remoting.tls_rooms import LOOPS, client_hello, on
from tests.waiting import until

from rocketpipe.errors import PortUnavailable
from rocketpipe.metrics import render
from rocketpipe.proxy.front.front import Front
from rocketpipe.remoting.authority import Authority

on_both_loops = pytest.mark.parametrize("loop", LOOPS)


@on_both_loops
def test_both_kinds_are_served_on_one_port(loop: str, authority: Authority) -> None:
    async def test() -> None:
        async with opened(tls_of(authority)) as port:
            for trusted in (None, authority):
                async with port.channel(trusted) as channel:
                    large = bytes(3 << 20)
                    assert await channel.unary_unary(ECHO)(large) == large

    on(loop, test)


@on_both_loops
def test_the_service_learns_where_each_client_comes_from(loop: str, authority: Authority) -> None:
    async def test() -> None:
        async with opened(tls_of(authority)) as port:
            channels = [port.channel(trusted) for trusted in (None, authority)]
            said = [await channel.unary_unary(WHO)(b"") for channel in channels]
            assert len(set(said)) == 2
            assert all(one.startswith(b"127.0.0.1:") for one in said)
            again = [await channel.unary_unary(WHO)(b"") for channel in channels]
            assert again == said
            for channel in channels:
                await channel.close()
            await until(lambda: port.front.connections == 0)

    on(loop, test)


async def test_plaintext_is_the_end_where_tls_is_enforced(authority: Authority) -> None:
    async with opened(tls_of(authority, tls_mode="enforcing")) as port:
        async with port.channel(authority) as channel:
            assert await channel.unary_unary(ECHO)(b"a") == b"a"
        async with port.channel() as channel:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await channel.unary_unary(ECHO)(b"a")
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_tls_is_told_that_it_is_switched_off(authority: Authority) -> None:
    async with opened(None) as port:
        with pytest.raises(ssl.SSLError, match=r"(?i)handshake"):
            await asyncio.open_connection(
                port.host, port.number, ssl=shaking(authority), server_hostname="localhost"
            )
        async with port.channel() as channel:
            assert await channel.unary_unary(ECHO)(b"a") == b"a"
        assert '{why="tls"} 1' in render(port.front.families())


async def test_http_1_is_told_what_this_port_is(authority: Authority) -> None:
    async with opened(tls_of(authority)) as port:
        context = shaking(authority)
        for behind in ({}, {"ssl": context, "server_hostname": "localhost"}):
            reader, writer = await asyncio.open_connection(port.host, port.number, **behind)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 505 ")
            assert b"gRPC" in answer
            writer.close()
        await until(lambda: port.front.connections == 0)


async def test_those_who_say_nothing_are_sent_away_and_cost_nothing() -> None:
    async with opened(first_bytes_s=0.2) as port:
        silent = [await port.connect() for _ in range(200)]
        for reader, writer in silent:
            assert await reader.read() == b""
            writer.close()
        assert port.front.connections == 0
        assert '{why="late"} 200' in render(port.front.families())


async def test_who_begins_tls_and_stops_is_sent_away(authority: Authority) -> None:
    tls = tls_of(authority)
    tls.patience_s = 0.2
    async with opened(tls) as port:
        reader, writer = await port.connect()
        writer.write(client_hello()[:100])
        assert await reader.read() == b""
        writer.close()
        async with port.channel(authority) as channel:  # others are served as ever
            assert await channel.unary_unary(ECHO)(b"a") == b"a"


async def test_one_too_many_is_sent_away_at_once() -> None:
    async with opened(connections=2) as port:
        kept = [await port.connect() for _ in range(2)]
        await until(lambda: port.front.connections == 2)
        reader, writer = await port.connect()
        assert await reader.read() == b""
        writer.close()
        for _, each in kept:
            each.close()
        await until(lambda: port.front.connections == 0)
        async with port.channel() as channel:
            assert await channel.unary_unary(ECHO)(b"a") == b"a"


async def test_a_taken_port_is_named() -> None:
    async with opened() as port:
        other = Front(None)
        with pytest.raises(PortUnavailable, match=f"gRPC on {port.address}: the port is taken"):
            async with other.listen(port.server, port.host, port.number):
                pass


async def test_a_renewed_certificate_is_shown_from_then_on_and_http_2_still_agreed_upon(
    tmp_path: Path,
) -> None:
    authority = Authority.opened(tmp_path)
    tls = tls_of(authority)
    async with opened(tls) as port:
        shown = [await _shown(port.host, port.number, authority)]
        authority.server(["localhost"])
        assert tls.reload()
        shown.append(await _shown(port.host, port.number, authority))
        assert shown[0] != shown[1]
        async with port.channel(authority) as channel:
            assert await channel.unary_unary(ECHO)(b"a") == b"a"


async def _shown(host: str, port: int, authority: Authority) -> bytes | None:
    context = shaking(authority)
    context.set_alpn_protocols(["h2", "http/1.1"])
    _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname="localhost")
    found: ssl.SSLObject = writer.get_extra_info("ssl_object")
    assert found.selected_alpn_protocol() == "h2"
    certificate = found.getpeercert(binary_form=True)
    writer.close()
    return certificate
