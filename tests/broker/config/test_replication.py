"""What a broker is told of its replicas."""

from __future__ import annotations

import dataclasses

import pytest

from rocketpipe.broker.config.replication import BrokerRole, ReplicationConfig
from rocketpipe.config.setting import settings_of


@pytest.mark.parametrize(
    ("role", "fixed", "elected"),
    [
        (None, False, True),
        (BrokerRole.ASYNC_MASTER, False, False),
        (BrokerRole.SYNC_MASTER, True, True),
        (BrokerRole.SLAVE, False, True),
    ],
)
def test_who_waits_for_replicas(role: BrokerRole | None, fixed: bool, elected: bool) -> None:
    alone = ReplicationConfig(role=role)
    assert (alone.elected, alone.waits) == (False, fixed)
    group = ReplicationConfig(role=role, zookeepers=("127.0.0.1:2181",))
    assert (group.elected, group.waits) == (True, elected)


@pytest.mark.parametrize(
    ("ha_port", "port", "listens"),
    [(-1, 10911, 10912), (-1, 0, 0), (0, 10911, 0), (7, 10911, 7), (7, 0, 7)],
)
def test_slaves_connect_behind_the_brokers_port_unless_it_is_told(
    ha_port: int, port: int, listens: int
) -> None:
    assert ReplicationConfig(ha_port=ha_port).listen_port(port) == listens


@pytest.mark.parametrize(
    "changes",
    [
        {"zookeepers": ("nowhere",)},
        {"master": "nowhere"},
        {"heartbeat_ms": 20_000},
        {"silence_ms": 5_000},
    ],
)
def test_what_does_not_fit_together_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        ReplicationConfig(**changes)


def test_every_default_is_a_value_that_its_setting_takes() -> None:
    for one in settings_of(ReplicationConfig):
        assert one.default is not dataclasses.MISSING
        assert one.read(one.write(one.default)) == one.default
