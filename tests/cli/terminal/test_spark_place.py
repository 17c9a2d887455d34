"""The flags that say on which Spark a command runs."""

from __future__ import annotations

import argparse

import pytest

from rocketpipe.cli.terminal.spark_place import add_flags, spark_place
from rocketpipe.errors import ConfigError
from rocketpipe.pipeline.session import SparkPlace


def place_of(*arguments: str) -> SparkPlace:
    """What a command makes of its flags."""
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return spark_place(parser.parse_args(arguments))


def test_without_flags_it_is_a_spark_of_our_own() -> None:
    assert place_of() == SparkPlace()


def test_settings_are_pairs_and_their_values_may_hold_anything() -> None:
    place = place_of("--master", "yarn", "--conf", "a.b=c=d", "--conf", "e=")
    assert place == SparkPlace(master="yarn", conf={"a.b": "c=d", "e": ""})


@pytest.mark.parametrize("text", ["a", "=b", ""])
def test_a_setting_that_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no KEY=VALUE"):
        place_of("--conf", text)
