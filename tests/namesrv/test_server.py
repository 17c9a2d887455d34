"""A NameServer's lifetime, and its own timers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from rocketpipe.errors import RequestRejected, StoreError
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.requests.kv import GetKeyValue, PutKeyValue, UpdateNamesrvConfig
from rocketpipe.protocol.requests.routes import GetRouteInfoByTopic, RegisterBroker
from rocketpipe.remoting.caller import Caller
from rocketpipe.testing import ManualClock

pytestmark = pytest.mark.scenario

ROUTE = GetRouteInfoByTopic(topic="t")
REGISTRATION = RegisterBroker(
    broker_name="a",
    broker_addr="10.0.0.1:10911",
    cluster_name="c",
    ha_server_addr="",
    broker_id=0,
    body=b'{"topicConfigSerializeWrapper":{"topicConfigTable":'
    b'{"t":{"topicName":"t"},"u":{"topicName":"u"}}}}',
)


async def test_a_broker_that_stays_connected_but_silent_expires_after_two_minutes() -> None:
    clock = ManualClock()
    async with (
        name_server(NamesrvConfig(port=0), clock=clock) as address,
        Caller() as broker,
        Caller() as client,
    ):
        await broker.call(address, REGISTRATION)
        connection = await broker.connect(address)
        await clock.advance(120_000)
        await client.call(address, ROUTE)
        await clock.advance(5_000)
        with pytest.raises(RequestRejected):
            await client.call(address, ROUTE)
        # The NameServer hung up, so that the broker comes anew.
        async with asyncio.timeout(PATIENCE_S):
            await connection.lost


async def test_the_scan_is_as_frequent_as_the_settings_say_now() -> None:
    clock = ManualClock()
    async with (
        name_server(NamesrvConfig(port=0), clock=clock) as address,
        Caller() as broker,
        Caller() as client,
    ):
        slower = UpdateNamesrvConfig(properties=b"scanNotActiveBrokerInterval=60000")
        await client.call(address, slower)
        await broker.call(address, replace(REGISTRATION, heartbeat_timeout_millis=20_000))
        await clock.advance(64_999)
        await client.call(address, ROUTE)
        await clock.advance(1)
        with pytest.raises(RequestRejected):
            await client.call(address, ROUTE)


async def test_key_values_outlive_the_server(tmp_path: Path) -> None:
    config = NamesrvConfig(port=0, kv_path=tmp_path / "namesrv" / "kvConfig.json")
    async with name_server(config) as address, Caller() as caller:
        await caller.call(address, PutKeyValue(namespace="n", key="k", value="v"))
    async with name_server(config) as address, Caller() as caller:
        reply = await caller.call(address, GetKeyValue(namespace="n", key="k"))
    assert reply.value == "v"


async def test_key_values_that_cannot_be_read_stop_the_start(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text("junk")
    with pytest.raises(StoreError, match=r"kvConfig\.json"):
        async with name_server(NamesrvConfig(port=0, kv_path=path)):
            pass


async def test_a_port_that_is_taken_is_named() -> None:
    async with name_server(NamesrvConfig(port=0)) as address:
        port = int(address.rpartition(":")[2])
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
            async with name_server(NamesrvConfig(port=port)):
                pass
