"""From a broker.conf to what a broker is in its group."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.broker.config.loading import LoadedBroker, load_broker
from rocketpipe.broker.config.replica_settings import HEARD, REPLICATION_SETTINGS
from rocketpipe.broker.config.replication import BrokerRole, ReplicationConfig
from rocketpipe.config.known_keys import BROKER_KEYS
from rocketpipe.config.load import Given, given_in_file
from rocketpipe.errors import ConfigError

#: The keys of RocketMQ's samples, from 4.9 to 5.5.
SAMPLE = """
brokerClusterName=DefaultCluster
brokerName={name}
brokerId={number}
deleteWhen=04
fileReservedTime=48
brokerRole={role}
flushDiskType=ASYNC_FLUSH
"""


def loaded(*given: tuple[str, str]) -> LoadedBroker:
    return load_broker([Given(key, text, f"f {key}") for key, text in given])


@pytest.mark.parametrize(
    ("folder", "file", "number", "role"),
    [
        ("2m-noslave", "broker-a", 0, BrokerRole.ASYNC_MASTER),
        ("2m-2s-async", "broker-a", 0, BrokerRole.ASYNC_MASTER),
        ("2m-2s-async", "broker-a-s", 1, BrokerRole.SLAVE),
        ("2m-2s-sync", "broker-b", 0, BrokerRole.SYNC_MASTER),
        ("2m-2s-sync", "broker-b-s", 1, BrokerRole.SLAVE),
    ],
)
def test_the_samples_of_rocketmq_are_taken_as_they_are(
    tmp_path: Path, folder: str, file: str, number: int, role: BrokerRole
) -> None:
    path = tmp_path / folder / f"{file}.properties"
    path.parent.mkdir()
    name = file.removesuffix("-s")
    path.write_text(SAMPLE.format(name=name, number=number, role=role.value))
    result = load_broker(given_in_file(path))
    assert result.choice.warnings() == []
    assert (result.config.name, result.config.broker_id) == (name, number)
    assert result.config.replication == ReplicationConfig(role=role)
    assert result.config.replication.waits is (role is BrokerRole.SYNC_MASTER)


@pytest.mark.parametrize(
    "given",
    [
        (),
        (("brokerId", "0"),),
        (("haListenPort", "-1"),),
        (("brokerRole", ""),),
        (("slaveTimeout", "9"),),
    ],
)
def test_a_broker_that_is_told_nothing_has_no_replicas(given: tuple[tuple[str, str], ...]) -> None:
    assert loaded(*given).config.replication is None


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("brokerRole", "ASYNC_MASTER"),
        ("haListenPort", "10912"),
        ("haMasterAddress", "10.0.0.1:10912"),
        ("zookeeperAddr", "10.0.0.1:2181"),
    ],
)
def test_one_that_is_told_of_replicas_has_them(key: str, text: str) -> None:
    assert loaded((key, text)).config.replication is not None


def test_what_is_listed_makes_the_same_group_again() -> None:
    for given in (
        (("brokerRole", "SLAVE"), ("brokerId", "2"), ("haHousekeepingInterval", "30s")),
        (("zookeeperAddr", "a:1,b:2;c:3"), ("brokerId", "-1")),
        (),
    ):
        first = loaded(*given)
        again = load_broker([Given(key, text, origin) for key, text, origin in first.items()])
        assert again.config == first.config
        assert {one.key for one in REPLICATION_SETTINGS} <= {row[0] for row in first.items()}


def test_an_ensemble_is_a_list_in_either_way_of_writing_one() -> None:
    replication = loaded(("zookeeperAddr", "a:1, b:2;c:3")).config.replication
    assert replication is not None
    assert replication.zookeepers == ("a:1", "b:2", "c:3")
    assert replication.elected
    assert replication.waits
    quick = loaded(("zookeeperAddr", "a:1"), ("brokerRole", "ASYNC_MASTER")).config.replication
    assert quick is not None
    assert not quick.waits


def test_the_placeholders_of_an_elected_group_are_taken() -> None:
    result = loaded(("zookeeperAddr", "a:1"), ("brokerId", "-1"), ("brokerRole", "SLAVE"))
    assert result.choice.warnings() == []
    assert result.config.broker_id == -1


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ((("brokerId", "1"),), "f brokerId: brokerId='1': only a slave"),
        ((("brokerId", "-1"),), "zookeeperAddr is not set"),
        ((("brokerId", "-2"),), "whole number"),
        ((("brokerId", "1"), ("brokerRole", "ASYNC_MASTER")), "set brokerRole to SLAVE"),
        ((("brokerId", "1"), ("brokerRole", "SYNC_MASTER")), "set brokerRole to SLAVE"),
        ((("brokerRole", "SLAVE"),), "set brokerId to 1"),
        ((("brokerRole", "SLAVE"), ("brokerId", "-1")), "set brokerId to 1"),
        ((("brokerRole", "MASTER"),), "one of ASYNC_MASTER, SYNC_MASTER, SLAVE"),
        ((("haListenPort", "10911"),), "f haListenPort: haListenPort='10911': clients connect"),
        ((("haListenPort", "10909"),), "fastPortEnable"),
        ((("brokerRole", "ASYNC_MASTER"), ("listenPort", "65535")), "set haListenPort"),
        ((("zookeeperAddr", "nowhere"),), "zookeeperAddr='nowhere': 'nowhere'"),
        ((("haMasterAddress", "nowhere"),), "haMasterAddress='nowhere': 'nowhere'"),
        ((("brokerRole", "ASYNC_MASTER"), ("brokerIP2", "two words")), "HOST or HOST:PORT"),
        (
            (("brokerRole", "ASYNC_MASTER"), ("haSendHeartbeatInterval", "20s")),
            "haHousekeepingInterval",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_what_to_do(
    given: tuple[tuple[str, str], ...], reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(*given)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (
            (("zookeeperAddr", "a:1"), ("minInSyncReplicas", "4"), ("totalReplicas", "3")),
            "f minInSyncReplicas: minInSyncReplicas=4: with fewer than 4 copies",
        ),
        (
            (("brokerRole", "SYNC_MASTER"), ("haMaxTimeSlaveNotCatchup", "15000")),
            "sends fail after 3000",
        ),
        ((("brokerRole", "SYNC_MASTER"), ("slaveTimeout", "1000")), "less than slaveTimeout"),
    ],
)
def test_what_is_hardly_meant_is_said(given: tuple[tuple[str, str], ...], reason: str) -> None:
    assert any(reason in line for line in loaded(*given).choice.warnings())


@pytest.mark.parametrize("key", ["brokerName", "brokerClusterName"])
def test_a_name_that_no_name_server_takes_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}: .*'a/b'"):
        loaded((key, "a/b"), ("zookeeperAddr", "a:1"))


def test_ports_that_differ_fit() -> None:
    loaded(("haListenPort", "10909"), ("fastPortEnable", "false"))
    for port in ("0", "10911"):
        assert loaded(("haListenPort", "0"), ("listenPort", port)).config.replication


ASYNC, SYNC = ("brokerRole", "ASYNC_MASTER"), ("brokerRole", "SYNC_MASTER")
SLAVE = (("brokerRole", "SLAVE"), ("brokerId", "1"))
ELECTED = ("zookeeperAddr", "a:1")


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ((ASYNC, ("minInSyncReplicas", "2")), "minInSyncReplicas"),
        ((ASYNC, ELECTED, ("minInSyncReplicas", "2")), "minInSyncReplicas"),
        ((ASYNC, ("slaveTimeout", "5s")), "slaveTimeout"),
        ((SYNC, ("haMasterAddress", "a:1")), "haMasterAddress"),
        ((ELECTED, ("haMasterAddress", "a:1")), "haMasterAddress"),
        ((SYNC, ("haAllowPlain", "true")), "haAllowPlain"),
        ((ELECTED, ("brokerId", "3")), "brokerId"),
        ((SYNC, ("inSyncReplicas", "1")), "inSyncReplicas"),
        ((ELECTED, ("allAckInSyncStateSet", "false")), "allAckInSyncStateSet"),
        ((SYNC, ("totalReplicas", "3")), "totalReplicas"),
        ((SYNC, ("haFlowControlEnable", "false")), "haFlowControlEnable"),
        ((*SLAVE, ("offsetCheckInSlave", "true")), "offsetCheckInSlave"),
        ((*SLAVE, ("enableSlaveActingMaster", "true")), "enableSlaveActingMaster"),
        ((ELECTED, ("asyncLearner", "true")), "asyncLearner"),
        ((ELECTED, ("controllerAddr", "a:9878")), "controllerAddr"),
    ],
)
def test_what_has_no_effect_says_why(given: tuple[tuple[str, str], ...], key: str) -> None:
    (line,) = loaded(*given).choice.warnings()
    text = dict(given)[key]
    assert line.startswith(f"f {key}: {key}={text} has no effect: ")


@pytest.mark.parametrize(
    "given",
    [
        (SYNC, ("minInSyncReplicas", "1"), ("slaveTimeout", "5s"), ("haFlowControlEnable", "true")),
        (ELECTED, ("allAckInSyncStateSet", "true"), ("minInSyncReplicas", "2")),
        (*SLAVE, ("haMasterAddress", "a:1"), ("offsetCheckInSlave", "false")),
        (*SLAVE, ("minInSyncReplicas", "2"), ("haSlaveFallbehindMax", "1g")),
        (ELECTED, ("haAllowPlain", "true")),
    ],
)
def test_what_is_so_is_not_warned_of(given: tuple[tuple[str, str], ...]) -> None:
    assert loaded(*given).choice.warnings() == []


def test_without_replicas_what_is_said_of_them_is_named_in_the_one_line() -> None:
    assert loaded(("slaveTimeout", "1"), ("inSyncReplicas", "2")).choice.notes() == [
        "these keys are known but have no effect here: inSyncReplicas, slaveTimeout"
    ]


def test_keys_of_rocketmq_that_are_explained_exist() -> None:
    assert HEARD <= BROKER_KEYS
    assert not HEARD & {one.key for one in REPLICATION_SETTINGS}
