from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.broker.config import live
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.live import LiveSettings
from rocketpipe.broker.config.replication import BrokerRole, ReplicationConfig
from rocketpipe.config.live import SettingForbidden, SettingRefused
from rocketpipe.config.setting import setting_for
from rocketpipe.store.config import StoreConfig
from rocketpipe.testing.clock import ManualClock

DATA = Path("data")


@pytest.fixture
def settings() -> LiveSettings:
    made = LiveSettings(BrokerConfig(data=DATA), StoreConfig(root=DATA), ManualClock())
    made.watch(lambda _: None, "permission", "max_message_bytes", "name")
    return made


def test_a_change_is_told_to_those_who_watch(settings: LiveSettings) -> None:
    seen: list[BrokerConfig] = []
    settings.watch(seen.append)
    assert settings.change({"brokerPermission": "4"}) == {"brokerPermission": "4"}
    assert [config.permission for config in seen] == [4]
    assert settings.now.permission == 4
    assert settings.version.counter == 1


def test_what_is_so_already_is_no_change(settings: LiveSettings) -> None:
    settings.watch(lambda _: pytest.fail("nothing changed"))
    assert settings.change({"brokerPermission": "6"}) == {}
    assert settings.version.counter == 0


@pytest.mark.parametrize(
    "key",
    ["storePathRootDir", "listenPort", "brokerIP1", "namesrvAddr", "brokerName",
     "brokerClusterName", "brokerId", "bindAddress", "storePathCommitLog", "someClassName",
     "accessKey"],
)  # fmt: skip
def test_paths_addresses_and_names_are_never_changed(settings: LiveSettings, key: str) -> None:
    with pytest.raises(SettingForbidden, match="nowhere else"):
        settings.change({"brokerPermission": "4", key: "x"})
    assert settings.now.permission == 6, "all or none"


def test_what_needs_a_restart_says_so(settings: LiveSettings) -> None:
    for key in ("defaultTopicQueueNums", "flushDiskType", "fileReservedTime"):
        with pytest.raises(SettingRefused, match="restart"):
            settings.change({key: "1"})


def test_a_key_that_nobody_knows_is_told_which_there_are(settings: LiveSettings) -> None:
    with pytest.raises(SettingRefused, match="maxMessageSize"):
        settings.change({"maxMesageSize": "1"})


def test_a_value_that_does_not_fit_is_refused(settings: LiveSettings) -> None:
    with pytest.raises(SettingRefused, match="a whole number from 0 to 7"):
        settings.change({"brokerPermission": "8"})


def test_everything_is_listed_once_and_sorted(settings: LiveSettings) -> None:
    lines = settings.text().splitlines()
    keys = [line.partition("=")[0] for line in lines]
    assert keys == sorted(set(keys))
    assert "brokerName=broker-a" in lines
    assert "brokerRole=ASYNC_MASTER" in lines
    assert any(line.startswith("mappedFileSizeCommitLog=") for line in lines)


def test_secrets_are_not_shown(settings: LiveSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = setting_for(StoreConfig, "delay_levels", "adminSecretKey")
    monkeypatch.setattr(live, "STORE_SETTINGS", (secret,))
    assert settings.items()["adminSecretKey"] == "******"


def test_only_what_somebody_puts_into_force_can_be_changed(settings: LiveSettings) -> None:
    assert settings.live_keys == ["brokerPermission", "maxMessageSize"]
    with pytest.raises(SettingRefused, match="restart"):
        settings.change({"longPollingEnable": "false"})
    settings.watch(lambda _: None, "long_polling")
    settings.change({"longPollingEnable": "false"})
    assert not settings.now.long_polling


def test_what_replicas_are_told_can_be_changed_where_there_are_any(settings: LiveSettings) -> None:
    settings.watch(lambda _: None, "min_in_sync")
    with pytest.raises(SettingRefused, match="restart"):
        settings.change({"minInSyncReplicas": "1"})
    config = BrokerConfig(data=DATA, replication=ReplicationConfig(role=BrokerRole.SYNC_MASTER))
    made = LiveSettings(config, StoreConfig(root=DATA), ManualClock())
    seen: list[BrokerConfig] = []
    made.watch(seen.append, "min_in_sync", "permission")
    assert made.change({"minInSyncReplicas": "1", "brokerPermission": "4"}) == {
        "minInSyncReplicas": "1",
        "brokerPermission": "4",
    }
    (after,) = seen
    assert after.replication == ReplicationConfig(role=BrokerRole.SYNC_MASTER, min_in_sync=1)
    assert after.permission == 4
    items = made.items()
    assert (items["brokerRole"], items["minInSyncReplicas"]) == ("SYNC_MASTER", "1")
    for key in ("haListenPort", "brokerIP2", "haMasterAddress", "zookeeperAddr"):
        with pytest.raises(SettingForbidden):
            made.change({key: "1"})


def test_an_elected_group_says_whether_its_leaders_wait() -> None:
    group = ReplicationConfig(zookeepers=("127.0.0.1:2181",))
    config = BrokerConfig(data=DATA, replication=group)
    made = LiveSettings(config, StoreConfig(root=DATA), ManualClock())
    assert made.items()["brokerRole"] == "SYNC_MASTER"
