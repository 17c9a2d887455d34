"""Who sends to the port two below is served like others; without it the broker runs too."""

from __future__ import annotations

import logging
import socket
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.presence.fast_port import BELOW, fast_port
from rocketpipe.errors import ConnectionLost
from rocketpipe.protocol.requests.topics import GetAllTopicConfig
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.config import StoreConfig


@pytest.fixture
def config(tmp_path: Path) -> BrokerConfig:
    """Settings with a port that is free, and so is the one two below."""
    while True:
        with ExitStack() as held:
            try:
                port = held.enter_context(_listening(0)).getsockname()[1]
                held.enter_context(_listening(port - BELOW))
            except OSError:
                continue
        break
    return BrokerConfig(
        data=tmp_path, name_servers=(), port=port, store=StoreConfig.embedded(tmp_path)
    )


def _listening(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


async def test_both_ports_are_served_and_closed(config: BrokerConfig) -> None:
    second = f"127.0.0.1:{config.port - BELOW}"
    async with Caller() as caller:
        async with broker(config) as first:
            for address in (first, second):
                told = await caller.call(address, GetAllTopicConfig())
                assert "TBW102" in told.table.topics
        with pytest.raises(ConnectionLost):
            await caller.call(second, GetAllTopicConfig())


async def test_a_port_that_is_taken_is_told_and_done_without(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    with _listening(config.port - BELOW), caplog.at_level(logging.WARNING):
        async with broker(config) as address, Caller() as caller:
            await caller.call(address, GetAllTopicConfig())
    assert "VIP channel" in caplog.text


@pytest.mark.parametrize("changes", [{"fast_port": False}, {"port": 0}, {"port": BELOW}])
async def test_nobody_gets_one_who_did_not_choose_a_port(
    config: BrokerConfig, changes: dict[str, int]
) -> None:
    async with fast_port(replace(config, **changes)) as server:  # type: ignore[arg-type]
        assert server is None
