"""What all peers together make a server hold, over real sockets and by the numbers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from rocketpipe.protocol.command import Command, refusal
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.remoting.buffers import (
    LEAST_BYTES,
    LEAST_SHARE_BYTES,
    MOST_BYTES,
    Buffers,
    suggested_bytes,
)
from rocketpipe.remoting.caller import split_address
from rocketpipe.remoting.connection import ConnectionLimits, PeerConnection
from rocketpipe.remoting.server import Server

KIB = 1024


class Peer:
    """A peer that does what the test says."""

    def __init__(self, name: str) -> None:
        self.address = name
        self.given_bytes = self.taken_bytes = self.frames = self.buffered_bytes = 0
        self.held_back: list[int] = []
        self.is_gone = False

    @property
    def unsent_bytes(self) -> int:
        return self.given_bytes - self.taken_bytes

    def hold_back(self, most_bytes: int) -> None:
        self.held_back.append(most_bytes)

    def abort(self) -> None:
        self.is_gone = True


def give(buffers: Buffers, peer: Peer, size: int) -> None:
    peer.given_bytes += size
    buffers.unsent.grew(size)


async def test_who_has_more_than_its_share_gets_no_more_once_half_is_used() -> None:
    buffers = Buffers(unsent_bytes=1600 * KIB)
    much, little = Peer("much"), Peer("little")
    for peer in (much, little):
        buffers.join(peer)
    give(buffers, little, 50 * KIB)
    for _ in range(7):
        give(buffers, much, 100 * KIB)
    assert not much.held_back
    give(buffers, much, 100 * KIB)
    assert much.held_back == [400 * KIB]
    assert not little.held_back
    assert not much.is_gone
    assert not buffers.unsent.is_full


async def test_nobody_is_held_back_below_what_everyone_may_have() -> None:
    buffers = Buffers(unsent_bytes=1600 * KIB)
    peers = [Peer(str(number)) for number in range(16)]
    for peer in peers:
        buffers.join(peer)
        give(buffers, peer, LEAST_SHARE_BYTES)
    assert not any(peer.held_back for peer in peers)


async def test_near_the_limit_the_one_goes_that_took_nothing_for_longest() -> None:
    buffers = Buffers(unsent_bytes=1600 * KIB)
    reading, stuck, late = Peer("reading"), Peer("stuck"), Peer("late")
    for peer in (reading, stuck, late):
        buffers.join(peer)
    give(buffers, reading, 400 * KIB)
    give(buffers, stuck, 400 * KIB)
    reading.taken_bytes += 1
    give(buffers, late, 400 * KIB)
    reading.taken_bytes += 1
    give(buffers, late, 400 * KIB)
    assert (stuck.is_gone, reading.is_gone, late.is_gone) == (True, False, False)
    assert buffers.unsent.is_full
    waits = asyncio.create_task(buffers.unsent.has_room())
    await asyncio.sleep(0)
    assert not waits.done()
    buffers.leave(stuck)  # now its bytes are gone
    await waits
    assert not buffers.unsent.is_full


async def test_of_requests_that_are_not_whole_the_oldest_goes() -> None:
    buffers = Buffers(unfinished_bytes=1600 * KIB)
    old, busy = Peer("old"), Peer("busy")
    for peer in (old, busy):
        buffers.join(peer)
    old.buffered_bytes = 800 * KIB
    buffers.unfinished.grew(800 * KIB)
    for _ in range(10):
        busy.frames += 1
        busy.buffered_bytes = 700 * KIB
        buffers.unfinished.grew(700 * KIB)
    assert not old.is_gone
    busy.buffered_bytes = 800 * KIB
    buffers.unfinished.grew(100 * KIB)
    assert old.is_gone
    assert not busy.is_gone


def test_what_memory_suggests_lies_between_the_least_and_the_most() -> None:
    assert LEAST_BYTES <= suggested_bytes() <= MOST_BYTES


class Port:
    """A server whose every answer is long, and what it holds for its peers."""

    def __init__(self) -> None:
        self.peers: set[PeerConnection] = set()
        self.lost: list[PeerConnection] = []
        self.most_unsent = 0
        self.somebody_left = asyncio.Event()
        self.address: tuple[str, int] = ("", 0)

    async def answer(self, command: Command, peer: PeerConnection) -> Command:
        self.peers.add(peer)
        self.look()
        return replace(refusal(command, 0, ""), body=bytes(256 * KIB))

    def look(self) -> None:
        self.most_unsent = max(self.most_unsent, sum(each.unsent_bytes for each in self.peers))

    def forget(self, peer: PeerConnection) -> None:
        self.peers.discard(peer)
        self.lost.append(peer)
        self.somebody_left.set()


@asynccontextmanager
async def serving(buffers: Buffers) -> AsyncIterator[Port]:
    port = Port()
    limits = ConnectionLimits(max_unsent_bytes=2048 * KIB)
    async with Server.bound("127.0.0.1", 0, limits=limits) as server:
        port.address = split_address(server.address)
        async with server.serving(port.answer, port.forget, buffers=buffers):
            yield port


def connect(address: tuple[str, int]) -> socket.socket:
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.connect(address)
    peer.setblocking(False)
    return peer


async def test_peers_that_ask_and_never_read_share_one_limit_and_a_reader_is_served() -> None:
    limit = 8192 * KIB
    asked = b"".join(encode_frame(Command(code=1, opaque=number)) for number in range(32))
    async with serving(Buffers(unsent_bytes=limit)) as port:
        deaf = [connect(port.address) for _ in range(40)]
        for peer in deaf:
            peer.send(asked)
        reader, writer = await asyncio.open_connection(*port.address, limit=512 * KIB)
        await port.somebody_left.wait()  # 40 times 2 MiB would be ten times the limit
        for number in range(20):
            writer.write(encode_frame(Command(code=1, opaque=number)))
            length = int.from_bytes(await reader.readexactly(4), "big")
            await reader.readexactly(length)
        port.look()
        assert port.most_unsent <= limit
        writer.close()
        for peer in deaf:
            peer.close()


async def test_requests_that_are_never_whole_share_one_limit_and_a_whole_one_is_answered() -> None:
    limit = 4096 * KIB
    begun = (8 << 20).to_bytes(4, "big") + bytes(512 * KIB)
    async with serving(Buffers(unfinished_bytes=limit)) as port:
        loop = asyncio.get_running_loop()
        slow = [connect(port.address) for _ in range(20)]

        async def begin(peer: socket.socket) -> None:
            try:
                await loop.sock_sendall(peer, encode_frame(Command(code=1, opaque=0)) + begun)
            except OSError:
                pass  # it was sent away in the middle

        await asyncio.gather(*map(begin, slow))
        await port.somebody_left.wait()
        reader, writer = await asyncio.open_connection(*port.address, limit=512 * KIB)
        writer.write(encode_frame(Command(code=1, opaque=7, body=bytes(1024 * KIB))))
        length = int.from_bytes(await reader.readexactly(4), "big")
        await reader.readexactly(length)
        assert sum(each.buffered_bytes for each in port.peers) <= limit
        assert all(not each.buffered_bytes for each in port.lost)
        writer.close()
        for peer in slow:
            peer.close()
