"""Two brokers that were given one name and id: both say so, once."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from tests.waiting import until

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import REGISTER_EVERY_MS, BrokerConfig
from rocketpipe.broker.config.replication import BrokerRole, ReplicationConfig
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.store.config import StoreConfig
from rocketpipe.testing import ManualClock

ROLES = [
    (0, None),
    (0, ReplicationConfig(role=BrokerRole.ASYNC_MASTER)),
    (1, ReplicationConfig(role=BrokerRole.SLAVE)),
]


@pytest.mark.parametrize(("number", "replication"), ROLES)
async def test_each_tells_of_the_other_and_the_name_server_of_both(
    tmp_path: Path,
    number: int,
    replication: ReplicationConfig | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    async with name_server(NamesrvConfig(port=0)) as address:
        config = BrokerConfig(
            data=tmp_path / "1",
            broker_id=number,
            name_servers=(address,),
            port=0,
            store=StoreConfig.embedded(tmp_path / "1"),
            replication=replication,
        )
        again = replace(config, data=tmp_path / "2", store=StoreConfig.embedded(tmp_path / "2"))

        def told(of: str) -> int:
            lines = (each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR)
            return sum("another broker is registered" in line and of in line for line in lines)

        async with broker(config, clock=clock) as first, broker(again, clock=clock) as second:
            await until(lambda: told(first))
            await clock.advance(REGISTER_EVERY_MS[1])
            await until(lambda: told(second))
            await clock.advance(REGISTER_EVERY_MS[1])
            assert (told(first), told(second)) == (1, 1)
            assert any(
                "broker displaced" in line and "if both run" in line for line in caplog.messages
            )


async def test_one_that_is_started_again_elsewhere_says_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with name_server(NamesrvConfig(port=0)) as address:
        config = BrokerConfig(
            data=tmp_path,
            name_servers=(address,),
            port=0,
            store=StoreConfig.embedded(tmp_path),
        )
        for _ in range(2):
            async with broker(config):
                pass
    assert not any("another broker" in line for line in caplog.messages)
