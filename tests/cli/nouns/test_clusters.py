"""``rocketpipe cluster`` against real servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.scenario


def test_clusters_are_listed(command: Callable[..., str], answer: Callable[..., Any]) -> None:
    command("topic", "create", "orders")
    (row,) = answer("cluster", "list")
    assert (row["cluster"], row["brokers"]) == ("DefaultCluster", ["broker-a"])
    assert row["topics"] >= 1
