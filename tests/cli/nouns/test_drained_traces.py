"""What NameServers keep of a broker that is drained."""

from __future__ import annotations

from pathlib import Path

from rocketpipe import Admin
from rocketpipe.cli.nouns.drained_traces import DrainedTraces
from rocketpipe.protocol.requests.kv import DRAINED_NAMESPACE, ORDER_NAMESPACE
from rocketpipe.testing import cluster


async def test_topics_in_order_are_sent_to_the_others_and_to_it_again(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Admin(servers.name_server) as admin:
        await admin.topics.create("orders", queues=3, ordered=True)
        await admin.topics.create("others", queues=3)
        await admin.name_servers.set_order("orders", {"broker-a": 3, "broker-b": 3})
        await admin.name_servers.set_order("others", {"broker-b": 3})
        traces = DrainedTraces(admin, "broker-a")
        await traces.leave_order()
        assert await admin.name_servers.values(ORDER_NAMESPACE) == {
            "orders": "broker-b:3",
            "others": "broker-b:3",
        }
        await traces.join_order()
        assert await admin.name_servers.values(ORDER_NAMESPACE) == {
            "orders": "broker-a:3;broker-b:3",
            "others": "broker-b:3",
        }


async def test_how_far_its_queues_reached_is_kept(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Admin(servers.name_server) as admin:
        traces = DrainedTraces(admin, "broker-b")
        await traces.leave({"orders": {1: 40, 0: 42}}, "broker-a")
        assert await admin.name_servers.values(DRAINED_NAMESPACE) == {
            "broker-b": "drained",
            "broker-b@orders": "0:42;1:40",
        }
