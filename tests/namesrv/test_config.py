"""A NameServer's settings, and which of them may be changed while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.config.live import SettingForbidden, SettingRefused
from rocketpipe.config.setting import settings_of
from rocketpipe.namesrv.config import LiveSettings, NamesrvConfig


def test_the_defaults_are_rocketmqs() -> None:
    text = LiveSettings(NamesrvConfig()).text().splitlines()
    assert text == sorted(text)
    assert set(text) >= {
        "deleteTopicWithBrokerRegistration=false",
        "enableAllTopicList=true",
        "enableTopicList=true",
        "listenPort=9876",
        "needWaitForService=false",
        "notifyMinBrokerIdChanged=false",
        "orderMessageEnable=false",
        "returnOrderTopicConfigToBroker=true",
        "scanNotActiveBrokerInterval=5000",
        "supportActingMaster=false",
        "waitSecondsForService=45",
    }


def test_a_change_shows_at_once_and_says_what_is_not_as_before() -> None:
    settings = LiveSettings(NamesrvConfig())
    changed = settings.change({"orderMessageEnable": "true", "enableTopicList": "true"})
    assert changed == {"orderMessageEnable": "true"}
    assert settings.now.order_enabled
    assert "orderMessageEnable=true\n" in settings.text()


@pytest.mark.parametrize(
    "key",
    [
        "kvConfigPath",
        "configStorePath",
        "rocketmqHome",
        "configBlackList",
        "bindAddress",
        "listenPort",
        "kv_path",
        "no such key",
        "",
    ],
)
def test_paths_addresses_and_unknown_keys_cannot_be_changed(key: str) -> None:
    settings = LiveSettings(NamesrvConfig())
    with pytest.raises(SettingForbidden, match="cannot be changed") as refused:
        settings.change({"orderMessageEnable": "true", key: "/etc/x"})
    assert str(refused.value).startswith(f"{key}: ")
    assert settings.now == NamesrvConfig()


def test_nothing_that_can_be_changed_is_a_path_or_a_text() -> None:
    assert {one.type for one in settings_of(NamesrvConfig) if one.live} == {bool, int}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("orderMessageEnable", "yes"),
        ("scanNotActiveBrokerInterval", "0"),
        ("scanNotActiveBrokerInterval", "soon"),
        ("waitSecondsForService", "-1"),
        ("maxBrokers", "99999999999"),
    ],
)
def test_a_value_of_the_wrong_kind_or_out_of_range_changes_nothing(key: str, value: str) -> None:
    settings = LiveSettings(NamesrvConfig())
    with pytest.raises(SettingRefused, match=f"{key}: it cannot be") as refused:
        settings.change({"enableTopicList": "false", key: value})
    assert refused.value.key == key
    assert settings.now == NamesrvConfig()


def test_a_setting_without_a_value_is_not_listed() -> None:
    assert "kvConfigPath" not in LiveSettings(NamesrvConfig()).text()
    config = NamesrvConfig(kv_path=Path("kv.json"))
    assert "kvConfigPath=kv.json\n" in LiveSettings(config).text()
