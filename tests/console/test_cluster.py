"""Points of charts: taken of what answers, with a gap where a part does not."""

from __future__ import annotations

import pytest
from tests.console.support.shop import Shop
from tests.ports import lasting_ports

from rocketpipe import Session
from rocketpipe.console.cluster import Cluster, disk, rate


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


def test_rates_and_ratios_are_read_as_brokers_tell_them() -> None:
    assert rate("12.5 3.0 1.0") == 12.5
    assert rate("") == rate(None) == rate("x") == 0.0
    assert disk({"commitLogDiskRatio": "0.25"}) == 25.0
    assert disk({}) == disk({"commitLogDiskRatio": "x"}) == 0.0
