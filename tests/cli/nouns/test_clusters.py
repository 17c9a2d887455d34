"""``rocketpipe cluster`` against real servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.broker.support.group_status import following, leading
from tests.client.admin.support.replicas import replicas_beside

from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario


def test_clusters_are_listed(command: Callable[..., str], answer: Callable[..., Any]) -> None:
    command("topic", "create", "orders")
    (row,) = answer("cluster", "list")
    assert (row["cluster"], row["brokers"]) == ("DefaultCluster", ["broker-a"])
    assert row["topics"] >= 1


def test_a_status_says_who_leads_and_how_far_the_others_are(
    servers: Servers, command: Callable[..., str], answer: Callable[..., Any]
) -> None:
    (alone,) = answer("cluster", "status")
    assert (alone["broker"], alone["id"], alone["role"]) == ("broker-a", 0, "leader")
    with replicas_beside(servers.name_server, leading(), following()) as made:
        _, leader, follower = answer("cluster", "status", "--cluster", "DefaultCluster")
        assert (leader["broker"], leader["epoch"], leader["in_sync"]) == ("broker-r", 3, True)
        assert (follower["id"], follower["role"], follower["lag"]) == (2, "follower", 100)
        assert (follower["in_sync"], follower["problem"]) == (True, None)
        head, *rows = command("cluster", "status").splitlines()
        assert "problem" not in head.lower()
        assert made[1].address in rows[-1]
    assert "none" in command("cluster", "status", "--cluster", "none", code=1)
