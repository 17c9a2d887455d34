"""TLS between a transport and a peer."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl

import pytest
from tests.remoting.tls_rooms import ASK, LOOPS, answering, on, server_tls
from tests.waiting import until

from rocketpipe.errors import ConnectionLost
from rocketpipe.remoting.authority import Authority
from rocketpipe.remoting.caller import Caller, connected, split_address
from rocketpipe.remoting.door import Door
from rocketpipe.remoting.tls import ClientTls, ServerTls
from rocketpipe.remoting.tls_settings import TlsSettings
from rocketpipe.remoting.tls_stream import SCRATCH_BYTES

pytestmark = pytest.mark.parametrize("loop", LOOPS)


class Echo(asyncio.Protocol):
    """Says what it hears, and keeps what befell it."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.pieces: list[int] = []
        self.transport: asyncio.Transport | None = None
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.echoes = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.pieces.append(len(data))
        self.heard += data
        if self.echoes and self.transport is not None:
            self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


class Buffered(asyncio.BufferedProtocol):
    """Keeps what it hears, by way of a buffer of its own."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(1000))
        self.heard = bytearray()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.heard += self.buffer[:nbytes]


async def echoing(tls: ServerTls) -> tuple[asyncio.Server, int, list[Echo]]:
    echoes: list[Echo] = []

    def arrived() -> Door:
        echoes.append(Echo())
        return Door(tls, echoes[-1])

    server = await asyncio.get_running_loop().create_server(arrived, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1], echoes


@pytest.mark.parametrize("size", [1, 16 << 10, (16 << 10) + 1, 3 * SCRATCH_BYTES + 5])
def test_bytes_come_as_they_were_sent(loop: str, authority: Authority, size: int) -> None:
    async def test() -> None:
        server, port, (*_,) = await echoing(server_tls(authority))
        data = os.urandom(size)
        client = Echo()
        client.echoes = False
        tls = ClientTls(TlsSettings(ca_file=authority.ca_file))
        await connected(client, "127.0.0.1", port, tls)
        assert client.transport is not None
        client.transport.write(data)
        await until(lambda: len(client.heard) >= size)
        assert bytes(client.heard) == data
        client.transport.close()
        assert await client.lost is None
        server.close()

    on(loop, test)


def test_a_peer_with_a_buffer_of_its_own_is_filled(loop: str, authority: Authority) -> None:
    async def test() -> None:
        server, port, _ = await echoing(server_tls(authority))
        data = os.urandom(100_000)
        client = Buffered()
        tls = ClientTls(TlsSettings(ca_file=authority.ca_file))
        await connected(client, "127.0.0.1", port, tls)
        assert client.transport is not None
        client.transport.write(data)
        await until(lambda: len(client.heard) >= len(data))
        assert bytes(client.heard) == data
        client.transport.abort()
        server.close()

    on(loop, test)


def test_a_small_answer_comes_in_one_piece(loop: str, authority: Authority) -> None:
    async def test() -> None:
        server, port, echoes = await echoing(server_tls(authority))
        client = Echo()
        client.echoes = False
        tls = ClientTls(TlsSettings(ca_file=authority.ca_file))
        await connected(client, "127.0.0.1", port, tls)
        assert client.transport is not None
        client.transport.write(b"x" * 10_000)
        await until(lambda: len(client.heard) == 10_000)
        assert echoes[0].pieces == client.pieces == [10_000]
        client.transport.abort()
        server.close()

    on(loop, test)


def test_a_peer_that_takes_nothing_pauses_the_writer(loop: str, authority: Authority) -> None:
    async def test() -> None:
        server, port, echoes = await echoing(server_tls(authority))
        client = Echo()
        client.echoes = False
        tls = ClientTls(TlsSettings(ca_file=authority.ca_file))
        await connected(client, "127.0.0.1", port, tls)
        assert client.transport is not None
        client.transport.write(b"x")
        await until(lambda: client.heard)
        (echo,) = echoes
        paused: list[bool] = []
        echo.pause_writing = lambda: paused.append(True)  # type: ignore[method-assign]
        echo.resume_writing = lambda: paused.append(False)  # type: ignore[method-assign]
        assert echo.transport is not None
        client.transport.pause_reading()
        echo.transport.set_write_buffer_limits(high=1 << 20)
        while not paused:
            echo.transport.write(bytes(1 << 20))
        assert echo.transport.get_write_buffer_size() >= 1 << 20
        client.transport.resume_reading()
        await until(lambda: paused == [True, False])
        client.transport.abort()
        server.close()

    on(loop, test)


def test_who_is_cut_off_without_a_goodbye_is_lost_and_no_more(
    loop: str, authority: Authority
) -> None:
    async def test() -> None:
        async with answering(server_tls(authority)) as (address, handler):
            context = ssl.create_default_context(cafile=str(authority.ca_file))

            def cut() -> None:
                with socket.create_connection(split_address(address)) as raw:
                    with context.wrap_socket(raw, server_hostname="127.0.0.1") as secured:
                        secured.sendall(b"\0\0\1\0half a frame")

            await asyncio.to_thread(cut)
            async with Caller(tls=TlsSettings(ca_file=authority.ca_file)) as caller:
                await caller.call(address, ASK)
            assert handler.asked == 1

    on(loop, test)


@pytest.mark.parametrize(
    "bad",
    [
        b"\x17\x03\x03\x00\x20" + bytes(32),  # a record that nobody can have made
        b"\x17\x03\x03\xff\xff" + bytes(65535),  # longer than records are
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_record_ends_the_connection(loop: str, authority: Authority, bad: bytes) -> None:
    async def test() -> None:
        async with answering(server_tls(authority)) as (address, handler):
            context = ssl.create_default_context(cafile=str(authority.ca_file))

            def spoil() -> bytes:
                with socket.create_connection(split_address(address)) as raw:
                    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
                    asking = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
                    while True:
                        try:
                            asking.do_handshake()
                            break
                        except ssl.SSLWantReadError:
                            raw.sendall(outgoing.read())
                            incoming.write(raw.recv(65536))
                    raw.sendall(outgoing.read() + bad)
                    rest = b""
                    try:
                        while piece := raw.recv(65536):
                            rest += piece
                    except ConnectionResetError:
                        pass
                    return rest

            await asyncio.to_thread(spoil)
            assert handler.asked == 0

    on(loop, test)


def test_an_answer_that_waits_is_told_why_tls_ended(loop: str, authority: Authority) -> None:
    async def test() -> None:
        pair = authority.server(["a"])
        tls = server_tls(
            authority,
            tls_cert=pair.cert,
            tls_key=pair.key,
            tls_client_auth="require",
            tls_client_ca=authority.ca_file,
        )
        async with answering(tls) as (address, handler):
            async with Caller(tls=TlsSettings(ca_file=authority.ca_file)) as caller:
                with pytest.raises(ConnectionLost, match="wants a client certificate: give one"):
                    await caller.call(address, ASK)
            own = authority.client("alice")
            shown = TlsSettings(ca_file=authority.ca_file, cert_file=own.cert, key_file=own.key)
            async with Caller(tls=shown) as caller:
                await caller.call(address, ASK)
            assert handler.asked == 1

    on(loop, test)
