"""A broker with replicas, put together by its settings."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.broker.support.leader_parts import fixed
from tests.broker.support.replica_parts import replica_parts

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.replication import ReplicationConfig
from rocketpipe.broker.core import Core
from rocketpipe.broker.replication.identity import IDENTITY_FILE, WrongIdentity
from rocketpipe.broker.replication.leading.ha_port import ha_port
from rocketpipe.broker.roles.replicated import _ha_address as ha_address_of
from rocketpipe.broker.roles.replicated import _replica_id as replica_id
from rocketpipe.clock import SystemClock
from rocketpipe.errors import StoreError
from rocketpipe.store.files.disk import Disk
from rocketpipe.testing.ensemble import Ensemble


class Ids:
    """Gives ids away, as ZooKeeper does."""

    def __init__(self) -> None:
        self.given: list[str] = []

    async def id_for(self, address: str) -> int:
        self.given.append(address)
        return 6 + len(self.given)


async def id_of(config: BrokerConfig, ids: Ids | None, address: str = "10.0.0.1:1") -> int:
    return await replica_id(config, address, Disk(), cast("Any", ids), SystemClock())


async def test_an_id_is_given_once_and_kept(tmp_path: Path) -> None:
    config, ids = BrokerConfig(data=tmp_path), Ids()
    assert await id_of(config, ids) == 7
    assert await id_of(config, ids, "10.0.0.2:1") == 7
    assert ids.given == ["10.0.0.1:1"]


async def test_with_fixed_roles_the_settings_say_it_each_time(tmp_path: Path) -> None:
    assert await id_of(BrokerConfig(data=tmp_path, broker_id=2), None) == 2
    assert not (tmp_path / IDENTITY_FILE).exists()


async def test_data_of_another_cluster_is_refused(tmp_path: Path) -> None:
    config, ids = BrokerConfig(data=tmp_path), Ids()
    await id_of(config, ids)
    with pytest.raises(WrongIdentity, match="not of broker-a in Other"):
        await id_of(replace(config, cluster="Other", name="broker-a"), ids)


@pytest.mark.parametrize(
    ("settings", "ha_host", "host"),
    [
        ({}, None, "127.0.0.1"),
        ({"advertise": "10.0.0.7"}, None, "10.0.0.7"),
        ({"advertise": "10.0.0.7:10911"}, None, "10.0.0.7"),
        ({"advertise": "10.0.0.7:10911"}, "10.0.0.8", "10.0.0.8"),
    ],
)
async def test_followers_find_it_where_clients_do_unless_told_otherwise(
    tmp_path: Path, settings: dict[str, str], ha_host: str | None, host: str
) -> None:
    config = BrokerConfig(data=tmp_path, **cast("Any", settings))
    async with ha_port("127.0.0.1", 0) as port:
        found = ha_address_of(config, fixed(ha_host=ha_host), port)
        assert found == f"{host}:{port.address.rpartition(':')[2]}"


async def test_a_directory_that_is_in_use_is_told_as_such(tmp_path: Path) -> None:
    async with replica_parts(tmp_path):
        with pytest.raises(StoreError, match="is locked"):
            async with replica_parts(tmp_path):
                pass


@pytest.mark.scenario
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
