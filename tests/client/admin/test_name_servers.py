"""What NameServers keep beside routes."""

from __future__ import annotations

import pytest

from rocketpipe.client.admin.admin import Admin
from rocketpipe.errors import ConnectionLost, InvalidName, RequestRejected
from rocketpipe.testing import Cluster


async def test_settings_are_read_and_changed(admin: Admin, servers: Cluster) -> None:
    before = (await admin.name_servers.settings())[servers.name_server]
    assert before["enableTopicList"] == "true"
    await admin.name_servers.change({"enableTopicList": "false"})
    after = (await admin.name_servers.settings())[servers.name_server]
    assert after == {**before, "enableTopicList": "false"}


async def test_what_cannot_be_set_is_refused(admin: Admin) -> None:
    with pytest.raises(RequestRejected):
        await admin.name_servers.change({"enableTopicList": "perhaps"})
    for key, value in (("", "x"), ("a=b", "x"), ("enableTopicList", "a\nb")):
        with pytest.raises(InvalidName):
            await admin.name_servers.change({key: value})


async def test_values_are_kept_by_namespace(admin: Admin) -> None:
    assert await admin.name_servers.get("n", "k") is None
    assert await admin.name_servers.values("n") == {}
    await admin.name_servers.put("n", "k", "v")
    await admin.name_servers.put("n", "l", "w")
    assert await admin.name_servers.get("n", "k") == "v"
    assert await admin.name_servers.values("n") == {"k": "v", "l": "w"}
    await admin.name_servers.delete("n", "k")
    await admin.name_servers.delete("n", "k")
    assert await admin.name_servers.get("n", "k") is None


async def test_an_ordered_topic_keeps_its_queues_when_brokers_come_and_go(admin: Admin) -> None:
    await admin.name_servers.set_order("orders", {"b": 2, "a": 4})
    assert await admin.name_servers.get("ORDER_TOPIC_CONFIG", "orders") == "a:4;b:2"
    await admin.name_servers.set_order("orders", None)
    assert await admin.name_servers.get("ORDER_TOPIC_CONFIG", "orders") is None


async def test_one_of_them_can_be_asked_and_told(admin: Admin, servers: Cluster) -> None:
    one = servers.name_server
    await admin.name_servers.put("one", "k", "v", server=one)
    assert await admin.name_servers.values("one", server=one) == {"k": "v"}
    assert await admin.name_servers.values("nothing", server=one) == {}
    await admin.topics.create("here")
    assert "here" in await admin.name_servers.known_topics(one)
    with pytest.raises(ConnectionLost):
        await admin.name_servers.known_topics("127.0.0.1:1")
