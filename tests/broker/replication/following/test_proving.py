"""A follower's connection until its leader is proven."""

from __future__ import annotations

import asyncio

import pytest
from tests.waiting import until

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.secret import Secret
from rocketpipe.broker.replication.challenge import LeaderAsks, NotProven
from rocketpipe.broker.replication.following.proving import Proving
from rocketpipe.errors import ConnectionLost

INNER = Credentials("inner", Secret("the-secret-of-the-brokers"))


class Peer(asyncio.BufferedProtocol):
    """Says something when it is connected, and remembers what it hears."""

    def __init__(self) -> None:
        self.heard = b""
        self.room = bytearray(4096)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"a handshake")

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.room

    def buffer_updated(self, nbytes: int) -> None:
        self.heard += bytes(self.room[:nbytes])


async def met(secret: Secret, *, says: bytes | None = None) -> tuple[Proving, Peer, bytes]:
    """Connect to a leader that knows this secret; gives what it was sent in the end."""
    found: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asks, rest = LeaderAsks(lambda _: [secret]), None
        try:
            if says is not None:
                writer.write(says)
            while rest is None and says is None:
                sent, rest = asks.receive(await reader.read(1000) or b"\xff")
                writer.write(sent)
            if rest is not None:
                while rest != b"a handshake":
                    rest += await reader.read(1000)
                writer.write(b"a hello")
                await writer.drain()
            found.set_result(rest or b"")
        except NotProven:
            found.set_result(b"")
        finally:
            writer.close()

    server = await asyncio.start_server(lead, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        peer = Peer()
        proving = Proving(peer, INNER, f"{host}:{port}")
        await asyncio.get_running_loop().create_connection(lambda: proving, host, port)
        await asyncio.wait([proving.proven])
        return proving, peer, await found


async def test_the_connection_is_another_s_once_both_are_proven() -> None:
    proving, peer, said = await met(INNER.secret)
    assert proving.proven.exception() is None
    assert said == b"a handshake"
    await until(lambda: peer.heard == b"a hello")


async def test_who_is_not_known_there_is_told_where_to_look() -> None:
    proving, _, _ = await met(Secret("another-secret"))
    with pytest.raises(ConnectionLost, match="know another secret of the brokers"):
        proving.proven.result()


async def test_a_leader_that_asks_for_nothing_is_none() -> None:
    proving, _, _ = await met(INNER.secret, says=b"\0\0\0\1 hello, I lead: this is my log")
    with pytest.raises(NotProven, match="asks for no proof"):
        proving.proven.result()
