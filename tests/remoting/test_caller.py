"""Asking by address."""

from __future__ import annotations

import asyncio

import pytest

from rocketpipe.errors import ConnectionLost
from rocketpipe.remoting.caller import Caller, split_address
from rocketpipe.remoting.router import Router
from rocketpipe.remoting.server import Server


async def test_everyone_who_asks_at_an_address_shares_one_connection() -> None:
    async with Server.bound("127.0.0.1", 0) as server, server.serving(Router().answer):
        async with Caller() as caller:
            first, second = await asyncio.gather(
                caller.connect(server.address), caller.connect(server.address)
            )
            assert first is second


async def test_a_lost_connection_is_made_anew_on_the_next_call() -> None:
    async with Server.bound("127.0.0.1", 0) as server, server.serving(Router().answer):
        async with Caller() as caller:
            first = await caller.connect(server.address)
            first.abort()
            await first.lost
            assert (await caller.connect(server.address)).is_open


async def test_nobody_there_is_told_with_the_address_and_the_reason() -> None:
    async with Server.bound("127.0.0.1", 0) as server:
        address = server.address
    async with Caller() as caller:
        with pytest.raises(ConnectionLost, match=f"{address}: cannot connect"):
            await caller.connect(address)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("127.0.0.1:9876", ("127.0.0.1", 9876)),
        ("[::1]:0", ("::1", 0)),
        ("host:65535", ("host", 65535)),
    ],
)
def test_an_address_has_two_parts(text: str, parts: tuple[str, int]) -> None:
    assert split_address(text) == parts


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:65536", "host:-1", "host:1x"])
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        split_address(text)
