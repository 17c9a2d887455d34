"""Points of charts: taken of what answers, with a gap where a part does not."""

from __future__ import annotations

import pytest
from tests.console.support.shop import Shop
from tests.ports import lasting_ports

from rocketpipe import Session
from rocketpipe.console.cluster import Cluster


@pytest.mark.scenario
async def test_a_point_is_taken_of_brokers_and_of_groups_that_somebody_looks_at(
    shop: Shop,
) -> None:
    async with Cluster(Session(shop.name_server)) as cluster:
        cluster.rings.watch("lag:audit")
        await cluster.sample_once()
        assert cluster.rings.points("in:broker-a")["values"][-1] >= 0
        assert cluster.rings.points("disk")["values"][-1] > 0
        assert cluster.rings.points("lag:audit")["values"][-1] == 0
        assert await cluster.producer() is await cluster.producer()


async def test_a_cluster_that_does_not_answer_has_no_points() -> None:
    (port,) = lasting_ports(1)
    async with Cluster(Session(f"127.0.0.1:{port}")) as cluster:
        await cluster.sample_once()
        assert cluster.rings.points("in") == {"times": [], "values": []}
