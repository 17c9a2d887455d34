"""The first byte of a connection."""

from __future__ import annotations

import asyncio

import pytest
from tests.remoting.tls_rooms import ASK, LOOPS, answering, client_hello, on, server_tls
from tests.waiting import until

from rocketpipe.errors import ConnectionLost
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.request import to_command
from rocketpipe.remoting.authority import Authority
from rocketpipe.remoting.caller import Caller, split_address
from rocketpipe.remoting.handshakes import MOST_AT_ONCE
from rocketpipe.remoting.tls_settings import TlsSettings

pytestmark = pytest.mark.parametrize("loop", LOOPS)


def test_both_kinds_are_answered_on_one_port_when_both_may_be(
    loop: str, authority: Authority
) -> None:
    async def test() -> None:
        tls = server_tls(authority, tls_mode="permissive")
        async with answering(tls) as (address, handler):
            for settings in (None, TlsSettings(ca_file=authority.ca_file)):
                async with Caller(tls=settings) as caller:
                    for _ in range(3):
                        await caller.call(address, ASK)
            assert handler.asked == 6
        assert tls.results["done"] == 1

    on(loop, test)


def test_plain_bytes_are_neither_handed_on_nor_answered_where_tls_is_enforced(
    loop: str, authority: Authority
) -> None:
    async def test() -> None:
        tls = server_tls(authority)
        async with answering(tls) as (address, handler):
            reader, writer = await asyncio.open_connection(*split_address(address))
            writer.write(encode_frame(to_command(ASK, 1)) * 100)
            try:
                assert await reader.read() == b""
            except ConnectionResetError:
                pass
            writer.close()
            async with Caller() as caller:
                with pytest.raises(ConnectionLost, match=r"closed .* it may want TLS"):
                    await caller.call(address, ASK)
            await until(lambda: tls.results["plain"] == 2)
            assert handler.asked == 0

    on(loop, test)


def test_a_port_without_tls_takes_no_handshake_for_a_request(
    loop: str, authority: Authority
) -> None:
    async def test() -> None:
        async with answering(None) as (address, handler):
            async with Caller(tls=TlsSettings(ca_file=authority.ca_file)) as caller:
                with pytest.raises(ConnectionLost, match="may not speak TLS"):
                    await caller.call(address, ASK)
            async with Caller() as caller:
                await caller.call(address, ASK)
            assert handler.asked == 1

    on(loop, test)


@pytest.mark.parametrize("begin", [b"", b"\x16", client_hello()[:-1], client_hello()])
def test_who_does_not_go_on_is_sent_away(loop: str, authority: Authority, begin: bytes) -> None:
    async def test() -> None:
        tls = server_tls(authority, patience_s=0.2)
        async with answering(tls) as (address, _):
            reader, writer = await asyncio.open_connection(*split_address(address))
            writer.write(begin)
            try:
                await reader.read()  # up to its end
            except ConnectionResetError:
                pass
            writer.close()
            assert tls.results["late"] == 1
            assert tls.handshakes.under_way == 0

    on(loop, test)


def test_byte_by_byte_is_as_good_as_at_once_and_no_excuse_for_being_slow(
    loop: str, authority: Authority
) -> None:
    async def test() -> None:
        tls = server_tls(authority, patience_s=0.5)
        async with answering(tls) as (address, _):
            reader, writer = await asyncio.open_connection(*split_address(address))
            gone = asyncio.ensure_future(reader.read())
            for byte in client_hello():
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
            try:
                assert (await gone)[:1] == b"\x16"  # it was answered, and then sent away
            except ConnectionResetError:
                pass
            assert tls.results["late"] == 1
            writer.close()

    on(loop, test)


def test_half_handshakes_keep_nobody_out(loop: str, authority: Authority) -> None:
    async def test() -> None:
        tls = server_tls(authority)
        async with answering(tls) as (address, handler):
            hello, where = client_hello(), split_address(address)
            halves = [await asyncio.open_connection(*where) for _ in range(2 * MOST_AT_ONCE)]
            for _, writer in halves:
                writer.write(hello)
            await until(lambda: tls.handshakes.waiting > 0)
            assert tls.handshakes.under_way == MOST_AT_ONCE
            # Of the same address: it is the last in the row.
            async with Caller(tls=TlsSettings(ca_file=authority.ca_file)) as caller:
                while not handler.asked:
                    try:
                        await caller.call(address, ASK, 30_000)
                    except ConnectionLost:  # its three seconds were over
                        pass
            assert tls.handshakes.waiting == 0
            for _, writer in halves:
                writer.close()
        assert tls.handshakes.under_way == 0

    on(loop, test)


def test_many_who_come_at_once_are_all_let_in(loop: str, authority: Authority) -> None:
    async def test() -> None:
        tls = server_tls(authority)
        async with answering(tls) as (address, handler):
            callers = [Caller(tls=TlsSettings(ca_file=authority.ca_file)) for _ in range(100)]
            await asyncio.gather(*(each.call(address, ASK, 60_000) for each in callers))
            assert handler.asked == 100
            await asyncio.gather(*(each.__aexit__() for each in callers))

    on(loop, test)


def test_the_end_of_the_server_ends_who_stands_at_the_door(loop: str, authority: Authority) -> None:
    async def test() -> None:
        async with answering(server_tls(authority)) as (address, _):
            reader, writer = await asyncio.open_connection(*split_address(address))
            writer.write(client_hello())
            assert await reader.read(1) == b"\x16"
        try:
            await reader.read()
        except ConnectionResetError:
            pass
        writer.close()

    on(loop, test)


def test_old_versions_are_refused(loop: str, authority: Authority) -> None:
    async def test() -> None:
        tls = server_tls(authority)
        async with answering(tls) as (address, _):
            reader, writer = await asyncio.open_connection(*split_address(address))
            writer.write(client_hello(b"\3\2"))
            assert (await reader.read())[:1] in (b"\x15", b"")  # an alert, and no more
            writer.close()
            assert tls.results["failed"] == 1

    on(loop, test)
