"""How each process is started."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from rocketpipe.broker.config.replication import ReplicationConfig
from rocketpipe.cli.cluster.commands import Commands, Wishes, broker_settings
from rocketpipe.cli.cluster.layout import Kind, Layout, Mode, Place, laid_out
from rocketpipe.config.setting import settings_of
from rocketpipe.errors import ConfigError
from rocketpipe.pipeline.java import JavaNotFound


def cluster(mode: Mode, replicas: int | None = None) -> Layout:
    return laid_out(None, mode=mode, replicas=replicas, zookeepers=None, session_ms=None)


def told(mode: Mode, name: str, replicas: int | None = None) -> dict[str, str]:
    wanted = cluster(mode, replicas)
    settings = broker_settings(wanted, place(wanted, name))
    known = {one.key for one in settings_of(ReplicationConfig)} | {"brokerName", "brokerId"}
    assert settings.keys() <= known  # a broker reads them
    return settings


def place(wanted: Layout, name: str) -> Place:
    return next(each for each in wanted.places if each.name == name)


def test_a_broker_alone_is_told_nothing_of_replicas() -> None:
    assert told(Mode.SINGLE, "broker-a") == {"brokerName": "broker-a"}
    assert told(Mode.TWO_MASTERS, "broker-b") == {"brokerName": "broker-b"}


@pytest.mark.parametrize(
    ("mode", "role"), [(Mode.ASYNC, "ASYNC_MASTER"), (Mode.SYNC, "SYNC_MASTER")]
)
def test_roles_are_fixed_where_nobody_elects(mode: Mode, role: str) -> None:
    master = told(mode, "broker-b")
    assert (master["brokerName"], master["brokerId"], master["brokerRole"]) == (
        "broker-b",
        "0",
        role,
    )
    assert "haMasterAddress" not in master
    slave = told(mode, "broker-b-s")
    assert (slave["brokerName"], slave["brokerId"], slave["brokerRole"]) == (
        "broker-b",
        "1",
        "SLAVE",
    )


def test_a_slave_reaches_its_master_through_a_relay() -> None:
    wanted = cluster(Mode.SYNC)
    slave = place(wanted, "broker-a-s")
    address = broker_settings(wanted, slave)["haMasterAddress"]
    assert address == f"127.0.0.1:{slave.relays['broker-a']}"
    assert not address.endswith(f":{place(wanted, 'broker-a').ha_port}")


def test_replicas_reach_the_coordinator_and_each_other_through_relays() -> None:
    wanted = cluster(Mode.ELECTED)
    replica = place(wanted, "broker-a-2")
    settings = broker_settings(wanted, replica)
    assert settings["brokerName"] == "broker-a"
    assert settings["zookeeperAddr"] == f"127.0.0.1:{replica.relays['zookeeper-1']}"
    assert settings["brokerIP2"] == f"127.0.0.1:{replica.relays['broker-a-2']}"
    assert settings["haListenPort"] == str(replica.ha_port)
    assert settings["zookeeperSessionTimeout"] == "3000"
    assert "brokerId" not in settings  # they are given out
    assert "minInSyncReplicas" not in settings


def test_a_single_replica_waits_for_nobody() -> None:
    assert told(Mode.ELECTED, "broker-a-1", 1)["minInSyncReplicas"] == "1"


def test_a_broker_reads_what_was_wished_for_then_what_it_is(tmp_path: Path) -> None:
    wanted = cluster(Mode.SINGLE)
    wishes = Wishes(profile="prod", flush="sync", config=[Path("more.conf")])
    command = Commands(wanted, tmp_path, wishes).of(place(wanted, "broker-a"))
    written = tmp_path / "conf" / "broker-a.conf"
    assert written.read_text() == "brokerName=broker-a\n"
    files = [command[at + 1] for at, word in enumerate(command) if word == "-c"]
    assert files == [str(Path("more.conf").absolute()), str(written)]
    assert command[command.index("--flush") + 1] == "sync"
    assert command[command.index("--profile") + 1] == "prod"
    assert command[command.index("-n") + 1] == wanted.name_server


def test_a_node_of_the_ensemble_knows_the_others(tmp_path: Path) -> None:
    wanted = laid_out(None, mode=Mode.ELECTED, replicas=1, zookeepers=3, session_ms=None)
    commands = Commands(wanted, tmp_path, Wishes())
    commands.check()
    command = commands.of(wanted.of_kind(Kind.ZOOKEEPER)[1])
    text = (tmp_path / "zookeeper-2" / "zoo.cfg").read_text()
    assert command[-1] == str(tmp_path / "zookeeper-2" / "zoo.cfg")
    for number, node in enumerate(wanted.of_kind(Kind.ZOOKEEPER), 1):
        assert f"server.{number}=127.0.0.1:{node.peer_port}:{node.election_port}\n" in text


def test_without_kazoo_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install kazoo"):
        Commands(cluster(Mode.ELECTED), Path(), Wishes()).check()


def test_what_needs_no_coordinator_needs_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpipe.pipeline.java.find_java", lambda *_, **__: None)
    with pytest.raises(JavaNotFound):
        Commands(cluster(Mode.ELECTED), Path(), Wishes()).check()
    Commands(cluster(Mode.SYNC), Path(), Wishes()).check()
