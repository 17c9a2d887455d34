"""Brokers and NameServers, on real sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config import BrokerConfig
from rocketpipe.errors import RequestRejected
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.requests.routes import GetRouteInfoByTopic
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.config import StoreConfig
from rocketpipe.testing import ManualClock

ROUTE = GetRouteInfoByTopic(topic="TBW102")


def small_broker(data: Path, *name_servers: str) -> BrokerConfig:
    store = StoreConfig.embedded(data)
    return BrokerConfig(data=data, name_servers=name_servers, port=0, store=store)


async def test_a_broker_registers_with_every_name_server_that_is_there(tmp_path: Path) -> None:
    async with name_server(port=0) as first, name_server(port=0) as second, Caller() as caller:
        config = small_broker(tmp_path, first, "127.0.0.1:1", second)
        async with broker(config) as address:
            for server in (first, second):
                reply = await caller.call(server, ROUTE)
                assert reply.route.brokers[0].leader == address
                assert reply.route.queues[0].perm == 7
        with pytest.raises(RequestRejected):
            await caller.call(first, ROUTE)


async def test_a_name_server_that_lost_its_memory_is_told_again_within_thirty_seconds(
    tmp_path: Path, lasting_port: int
) -> None:
    clock = ManualClock()
    async with name_server(port=lasting_port) as address, Caller() as caller:
        config = small_broker(tmp_path, address)
        running = broker(config, clock=clock)
        await running.__aenter__()
    async with name_server(port=lasting_port) as address, Caller() as caller:
        with pytest.raises(RequestRejected):
            await caller.call(address, ROUTE)
        await clock.advance(30_000)
        async with asyncio.timeout(5):
            while True:
                try:
                    await caller.call(address, ROUTE)
                    break
                except RequestRejected:
                    continue
        await running.__aexit__(None, None, None)
