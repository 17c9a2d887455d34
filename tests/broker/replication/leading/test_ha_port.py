"""The port where followers connect: who is let in, and how many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.broker.support.leader_parts import fixed, leading
from tests.broker.support.scripted_follower import connected, following
from tests.remoting.tls_rooms import server_tls
from tests.waiting import until

from rocketpipe.broker.replication.frames import Dialect
from rocketpipe.broker.replication.leading import ha_port as module
from rocketpipe.broker.replication.leading.ha_port import (
    MAX_CONNECTIONS,
    MAX_STRANGERS,
    HaConnection,
    ha_port,
)
from rocketpipe.remoting.authority import Authority
from rocketpipe.remoting.caller import split_address


async def test_its_number_is_known_before_anybody_leads() -> None:
    async with ha_port("127.0.0.1", 0) as port:
        host, number = split_address(port.address)
        assert host == "127.0.0.1"
        assert number > 0
        with pytest.raises(OSError, match=r"cannot listen for followers on 127\.0\.0\.1"):
            async with ha_port("127.0.0.1", number):
                pass


async def test_while_nobody_leads_connections_are_closed_and_that_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    async with ha_port("127.0.0.1", 0) as port:
        port.serve(lambda: None)
        for _ in range(3):
            async with await connected(port.address, Dialect.PLAIN) as follower:
                await follower.is_closed()
        assert port.refused == 3
        assert caplog.text.count("this broker does not lead") == 1


async def test_the_end_of_the_block_ends_every_connection(tmp_path: Path) -> None:
    async with leading(tmp_path, fixed()) as parts:
        follower = await connected(parts.address, Dialect.EPOCHS)
        await until(lambda: parts.followers._open)
    await follower.is_closed()
    follower.close()


async def test_a_flood_of_connections_keeps_no_follower_out(tmp_path: Path) -> None:
    async with leading(tmp_path, fixed()) as parts, following(parts.address, 2) as slave:
        await parts.heard(1)
        flood = [
            await asyncio.open_connection(*split_address(parts.address))
            for _ in range(MAX_STRANGERS * 4)
        ]
        async with following(parts.address, 3) as another:
            await parts.heard(2)
            assert not slave.closed
            assert not another.closed
            assert len(parts.followers._open) <= MAX_STRANGERS + 2
        for _, writer in flood:
            writer.close()


@pytest.mark.parametrize("number", [None, 1000])
async def test_nor_does_one_of_those_that_claim_to_be_empty_slaves(
    tmp_path: Path, number: int | None
) -> None:
    async with leading(tmp_path, fixed()) as parts, AsyncExitStack() as flood:
        parts.append()
        for each in range(MAX_CONNECTIONS + 10):
            claims = following(parts.address, number and number + each)
            await flood.enter_async_context(claims)
        async with following(parts.address, 3) as real:
            real.reports = True
            await until(lambda: parts.end_of(3) == parts.end)
            assert len(parts.followers._open) <= MAX_STRANGERS + 1


async def test_there_are_only_so_many_followers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 2)
    async with (
        leading(tmp_path, fixed()) as parts,
        following(parts.address, 2),
        following(parts.address, 3),
    ):
        await parts.heard(2)
        async with following(parts.address, 4) as third:
            await third.is_closed()
        assert len(parts.followers.status()) == 2


async def test_those_who_begin_tls_and_go_no_further_are_only_so_many(
    authority: Authority,
) -> None:
    class Welcomed(asyncio.Protocol):
        """A stranger, for ever."""

        is_stranger = True

        def __init__(self, lost: Callable[[HaConnection], None]) -> None:
            self._lost = lost

        def abort(self) -> None:
            self._lost(self)

    class Leads:
        def welcome(self, lost: Callable[[HaConnection], None]) -> HaConnection:
            return Welcomed(lost)

    async with ha_port("127.0.0.1", 0, server_tls(authority)) as port:
        leader = Leads()
        port.serve(lambda: leader)
        where = split_address(port.address)
        flood = [await asyncio.open_connection(*where) for _ in range(3 * MAX_STRANGERS)]
        for _, writer in flood:
            writer.write(b"\x16")
        for reader, _ in flood[: 2 * MAX_STRANGERS]:  # they made room
            try:
                assert await reader.read() == b""
            except ConnectionResetError:
                pass
        await until(lambda: len(port._doors) <= MAX_STRANGERS)
    assert not port._doors
    for _, writer in flood:
        writer.close()
