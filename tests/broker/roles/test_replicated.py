"""A broker with replicas, put together with a real coordinator."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.replication import ReplicationConfig
from rocketpipe.broker.core import Core
from rocketpipe.testing.ensemble import Ensemble

pytestmark = pytest.mark.scenario


async def test_an_emptied_directory_is_another_replica_whatever_its_settings_say(
    zookeeper: Ensemble, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    # Were it the same one, still in the in-sync set, it could lead with nothing.
    config = BrokerConfig(
        data=tmp_path / "data",
        port=0,
        cluster=request.node.name,
        broker_id=1,
        replication=ReplicationConfig(zookeepers=zookeeper.hosts, ha_port=0),
    )

    async def started() -> int:
        cores: list[Core] = []
        async with broker(config, watch=cores.append):
            return cores[-1].group.status().id

    first = await started()
    assert await started() == first
    shutil.rmtree(config.data)
    assert await started() != first
