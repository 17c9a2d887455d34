"""Keys of RocketMQ that say what is so here."""

from __future__ import annotations

from rocketpipe.broker.config.loading import broker_settings
from rocketpipe.broker.config.so_anyway import SO_ANYWAY, kept_anyway
from rocketpipe.config.known_keys import BROKER_KEYS
from rocketpipe.config.load import Choice, Given


def test_the_keys_exist_and_no_setting_reads_them() -> None:
    assert set(SO_ANYWAY) <= BROKER_KEYS
    assert not set(SO_ANYWAY) & {name for one in broker_settings() for name in one.names}


def test_only_the_value_that_is_in_force_is_kept() -> None:
    given = [Given("timerWheelEnable", " TRUE", "f"), Given("enableLmq", "true", "f")]
    assert kept_anyway(Choice(given, ())) == {"timerWheelEnable"}
