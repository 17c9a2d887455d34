"""What stands between two processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.waiting import until

from rocketpipe.cli.cluster import relay as relay_module
from rocketpipe.cli.cluster.relay import Cuts, Relay


class Upper:
    """Answers in capitals, and remembers what it read."""

    def __init__(self) -> None:
        self.read = b""
        self.connections = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        while data := await reader.read(1 << 16):
            self.read += data
            writer.write(data.upper())
        writer.close()


@asynccontextmanager
async def relayed(
    cuts: Cuts, server: Upper, client: str = "broker-a-2"
) -> AsyncIterator[tuple[Relay, int]]:
    listening = await asyncio.start_server(server.connected, "127.0.0.1", 0)
    relay = Relay(
        server="broker-a-1",
        target=listening.sockets[0].getsockname()[1],
        client=lambda _: client,
        cuts=cuts,
    )
    try:
        yield relay, await relay.open(0)
    finally:
        relay.close()
        listening.close()
        for writer in server.writers:
            writer.close()


async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


async def test_what_comes_is_passed_on_both_ways() -> None:
    async with relayed(Cuts(), Upper()) as (_, port):
        reader, writer = await connect(port)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"HELLO"
        writer.close()


async def test_much_is_passed_on_whole_to_one_that_reads_slowly() -> None:
    server = Upper()
    async with relayed(Cuts(), server) as (_, port):
        reader, writer = await connect(port)
        sent = b"x" * (2 << 20)
        writer.write(sent)
        read = b""
        while len(read) < len(sent):
            read += await reader.read(1 << 14)
            await asyncio.sleep(0)
        assert read == sent.upper()
        writer.close()


@pytest.mark.parametrize("name", ["broker-a-1", "broker-a-2"])
async def test_what_is_cut_neither_passes_nor_is_closed(name: str) -> None:
    cuts, server = Cuts(), Upper()
    async with relayed(cuts, server) as (relay, port):
        reader, writer = await connect(port)
        writer.write(b"before ")
        assert await reader.readexactly(7) == b"BEFORE "
        cuts.add(name)
        assert relay.held == 1
        writer.write(b"meanwhile ")
        server.writers[0].write(b"said ")
        later_reader, later = await connect(port)
        later.write(b"new")
        await until(lambda: relay.held == 2)
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert server.read == b"before "
        assert server.connections == 1
        cuts.remove(name)
        # Late, as from a network that was slow; and in order.
        assert await reader.readexactly(15) == b"said MEANWHILE "
        assert await later_reader.readexactly(3) == b"NEW"
        assert relay.held == 0
        writer.close()
        later.close()


async def test_others_are_not_concerned() -> None:
    cuts = Cuts()
    async with relayed(cuts, Upper()) as (relay, port):
        cuts.add("broker-a-3")
        reader, writer = await connect(port)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"HELLO"
        assert relay.held == 0
        writer.close()


async def test_an_end_that_closes_takes_the_other_with_it() -> None:
    server = Upper()
    async with relayed(Cuts(), server) as (relay, port):
        reader, writer = await connect(port)
        writer.write(b"a")
        await reader.readexactly(1)
        server.writers[0].close()
        assert await reader.read() == b""
        writer.close()
        await until(lambda: not relay._links)


async def test_a_server_that_is_not_there_closes_the_connection() -> None:
    relay = Relay(server="broker-a-1", target=1, client="broker-a-2", cuts=Cuts())
    reader, writer = await connect(await relay.open(0))
    assert await _rest(reader) == b""
    writer.close()
    relay.close()


async def test_what_closed_while_it_was_cut_is_noticed_when_it_is_healed() -> None:
    cuts, server = Cuts(), Upper()
    async with relayed(cuts, server) as (relay, port):
        reader, writer = await connect(port)
        writer.write(b"a")
        await reader.readexactly(1)
        cuts.add("broker-a-1")
        writer.write(b"b")
        writer.close()
        await writer.wait_closed()
        assert relay.held == 1
        cuts.remove("broker-a-1")
        await until(lambda: server.read == b"ab" and not relay._links)


async def test_so_many_wait_to_be_healed_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "MOST_HELD", 2)
    cuts, server = Cuts(), Upper()
    cuts.add("broker-a-1")
    async with relayed(cuts, server) as (relay, port):
        waiting = [await connect(port) for _ in range(2)]
        await until(lambda: relay.held == 2)
        reader, writer = await connect(port)
        assert await _rest(reader) == b""
        for _, each in [*waiting, (reader, writer)]:
            each.close()


async def test_nothing_is_left_of_a_relay_that_is_closed() -> None:
    cuts, server = Cuts(), Upper()
    async with relayed(cuts, server) as (relay, port):
        reader, writer = await connect(port)
        writer.write(b"a")
        await reader.readexactly(1)
        cuts.add("broker-a-1")
        _, held = await connect(port)
        await until(lambda: relay.held == 2)
        relay.close()
        assert await _rest(reader) == b""
        assert not relay._links
        writer.close()
        held.close()


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
