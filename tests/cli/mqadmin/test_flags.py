"""The original's values, and its ways to name brokers."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import datetime

import pytest

from rocketpipe.cli.mqadmin.flags import original_time, truth
from rocketpipe.testing.servers import Servers


def test_moments_are_read_as_the_original_writes_them() -> None:
    assert original_time("-1") == -1
    assert original_time("0") == 0
    assert original_time("1676730526212") == 1676730526212
    noon = datetime(2024, 5, 1, 12, 0, 0, 250_000)
    assert original_time("2024-05-01#12:00:00:250") == round(noon.timestamp() * 1000)
    assert original_time("2024-05-01T12:00:00Z") == 1714564800000
    assert original_time("now") > 1_700_000_000_000
    with pytest.raises(argparse.ArgumentTypeError, match="is no time"):
        original_time("soon")


def test_what_is_neither_true_nor_false_is_refused() -> None:
    assert truth("TRUE") is True
    assert truth("false") is False
    with pytest.raises(argparse.ArgumentTypeError, match="'yes' is neither"):
        truth("yes")


@pytest.mark.scenario
def test_a_broker_is_meant_by_address_by_name_or_by_cluster(
    servers: Servers, command: Callable[..., str]
) -> None:
    by_address = command("mqadmin", "getBrokerConfig", "-b", servers.broker)
    assert by_address == command("mqadmin", "getBrokerConfig", "-b", "broker-a")
    assert by_address == command("mqadmin", "getBrokerConfig", "-c", "DefaultCluster")
    refused = command("mqadmin", "getBrokerConfig", "-b", "127.0.0.1:1", code=2)
    assert f"broker-a at {servers.broker}" in refused
    assert "no cluster" in command("mqadmin", "getBrokerConfig", "-c", "none", code=1)
