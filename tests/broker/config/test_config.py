"""What a broker is told."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

from rocketpipe.auth.config import AuthConfig
from rocketpipe.broker.config.config import NOT_READ_YET, PROFILES, SMALL_FILES, BrokerConfig
from rocketpipe.broker.config.loading import broker_settings
from rocketpipe.config.setting import settings_of


def test_the_defaults_are_rocketmqs() -> None:
    config = BrokerConfig(data=Path("store"), name_servers=("127.0.0.1:9876",))
    assert (config.port, config.cluster, config.name, config.broker_id) == (
        10911,
        "DefaultCluster",
        "broker-a",
        0,
    )
    assert (config.default_topic_queues, config.register_every_ms) == (8, 30_000)
    assert config.host == "127.0.0.1"


def test_it_needs_a_directory_and_nothing_else() -> None:
    with pytest.raises(TypeError):
        BrokerConfig()
    assert BrokerConfig(data=Path("store")).name_servers == ()


def test_every_field_but_those_with_their_own_settings_can_be_set_from_outside() -> None:
    fields = {field.name for field in dataclasses.fields(BrokerConfig)}
    assert fields - {one.attribute for one in settings_of(BrokerConfig)} == {
        "store",
        "replication",
        "tls",
    }


def test_every_default_is_a_value_that_its_setting_takes() -> None:
    for one in settings_of(BrokerConfig):
        if one.default is not dataclasses.MISSING:
            assert one.read(one.write(one.default)) == one.default


def test_whatever_no_part_reads_is_marked_so() -> None:
    """Red when a part begins to read a setting: take it out of NOT_READ_YET."""
    room = Path(inspect.getfile(BrokerConfig)).parents[1]
    code = "\n".join(
        path.read_text()
        for path in room.rglob("*.py")
        if path.name not in ("config.py", "settings.py")
    )
    read = {
        one.attribute
        for one in settings_of(BrokerConfig)
        if re.search(rf"config\.{one.attribute}\b", code)
    }
    # The first is read where settings are loaded.
    own = {one.attribute for one in settings_of(BrokerConfig)} - {
        one.attribute for one in settings_of(AuthConfig)
    }
    assert own - read - {"profile"} == NOT_READ_YET


def test_profiles_change_settings_that_exist() -> None:
    settings = {one.key: one for one in broker_settings()}
    for changes in (*PROFILES.values(), SMALL_FILES):
        for key, text in changes.items():
            settings[key].read(text)


@pytest.mark.parametrize(
    "changes", [{"name_servers": ("nowhere",)}, {"name": ""}, {"cluster": " x"}]
)
def test_what_is_no_value_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        BrokerConfig(data=Path("store"), **changes)
