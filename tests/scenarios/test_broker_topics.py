"""Topics over real sockets: every answer, every refusal, and what the NameServer hears of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.support.members import both_servers
from tests.scenarios.support.raw_broker import driven_broker
from tests.waiting import PATIENCE_S

from rocketpipe import ConsumeFromWhere, Producer, PullConsumer
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol import fastjson
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.offsets import GetMaxOffset, GetMinOffset
from rocketpipe.protocol.requests.topics import (
    DeleteTopic,
    GetAllTopicConfig,
    GetBrokerSystemTopics,
    GetTopicConfig,
    GetTopicStats,
    TopicDetails,
    TopicList,
    TopicStats,
    TopicTablePage,
    UpdateAndCreateTopic,
    UpdateAndCreateTopicList,
)

pytestmark = pytest.mark.scenario


def create(topic: str = "t", **changes: Any) -> UpdateAndCreateTopic:
    values: dict[str, Any] = {
        "default_topic": "TBW102",
        "read_queue_nums": 4,
        "write_queue_nums": 4,
        "perm": 6,
        **changes,
    }
    return UpdateAndCreateTopic(topic=topic, **values)


async def test_a_topic_has_its_route_when_its_creation_is_answered(tmp_path: Path) -> None:
    async with both_servers(tmp_path) as servers, servers.member() as member:
        await member.ask(create(read_queue_nums=8))
        route = await servers.route("t")
        assert route is not None
        assert [(each.read_queues, each.write_queues, each.perm) for each in route.queues] == [
            (8, 4, 6)
        ]
        await member.ask(create(write_queue_nums=2, perm=4))
        route = await servers.route("t")
        assert route is not None
        assert [(each.read_queues, each.write_queues, each.perm) for each in route.queues] == [
            (4, 2, 4)
        ]
        many = TopicList(topics=tuple(TopicSettings(name=name) for name in ("a", "b")))
        await member.ask(UpdateAndCreateTopicList(wanted=many))
        assert await servers.route("a") is not None
        assert await servers.route("b") is not None


async def test_tools_find_routes_named_like_cluster_and_broker(tmp_path: Path) -> None:
    async with both_servers(tmp_path) as servers:
        for topic, queues, perm in (
            ("DefaultCluster", 16, 7),
            ("broker-a", 1, 7),
            ("TBW102", 8, 7),
        ):
            route = await servers.route(topic)
            assert route is not None
            assert [(each.write_queues, each.perm) for each in route.queues] == [(queues, perm)]


async def test_a_broker_that_may_only_be_read_says_so_in_every_route(tmp_path: Path) -> None:
    async with both_servers(tmp_path, permission=4) as servers:
        route = await servers.route("TBW102")
        assert route is not None
        assert [each.perm for each in route.queues] == [4]


async def test_settings_and_the_kind_of_messages_outlive_the_broker(tmp_path: Path) -> None:
    async with driven_broker(tmp_path) as driver:
        request = create(attributes="+message.type=FIFO", order=True)
        assert (await driver.ask(request)).code == 0
    async with driven_broker(tmp_path) as driver:
        answer = await driver.ask(GetTopicConfig(topic="t", logical=True))
        details = fastjson.read(answer.body, TopicDetails)
        assert details.attributes == {"message.type": "FIFO"}
        assert details.ordered
        everything = await driver.ask(GetAllTopicConfig())
        table = fastjson.read(everything.body, TopicTablePage)
        assert table.topics["t"].attributes == {"message.type": "FIFO"}
        assert everything.fields == {"totalTopicNum": str(len(table.topics))}
        page = await driver.ask(GetAllTopicConfig(topic_seq=0, max_topic_num=3))
        assert list(fastjson.read(page.body, TopicTablePage).topics) == sorted(table.topics)[:3]


@pytest.mark.parametrize(
    ("request_", "code", "remark"),
    [
        (create("../t"), 29, "'.' at 0"),
        (create("x" * 128), 29, "has 128 characters"),
        (create("TBW102"), 29, "The topic[TBW102] is conflict with system topic."),
        (create("broker-a"), 29, "The topic[broker-a] is conflict with system topic."),
        (create(read_queue_nums=70_000), 29, "readQueueNums is from 0 to 65536"),
        (create(perm=64), 29, "perm is from 0 to 15"),
        (create(attributes="+message.type=MIXED"), 29, "MIXED message type is not supported."),
        (create(attributes="+odd=1"), 1, "attribute 'odd': is not known"),
        (
            UpdateAndCreateTopicList(wanted=TopicList(topics=(TopicSettings(name="a b"),))),
            29,
            "topic 'a b'",
        ),
        (DeleteTopic(topic=""), 29, "The specified topic is blank."),
        (DeleteTopic(topic="SCHEDULE_TOPIC_XXXX"), 29, "is conflict with system topic."),
        (GetTopicConfig(topic="none"), 17, "No topic in this broker. topic: none"),
        (GetTopicStats(topic="none"), 17, "topic[none] not exist"),
    ],
)
async def test_each_refusal_has_its_code_and_remark(
    tmp_path: Path, request_: Request[Any], code: int, remark: str
) -> None:
    async with driven_broker(tmp_path) as driver:
        answer = await driver.ask(request_)
        assert answer.code == code
        assert remark in str(answer.remark)


async def test_every_queue_of_an_empty_topic_is_measured(tmp_path: Path) -> None:
    async with driven_broker(tmp_path) as driver:
        assert (await driver.ask(create(read_queue_nums=2, write_queue_nums=3))).code == 0
        empty = fastjson.read((await driver.ask(GetTopicStats(topic="t"))).body, TopicStats)
        assert sorted(queue.queue_id for queue in empty.queues) == [0, 1, 2]
        assert {(each.min_offset, each.max_offset) for each in empty.queues.values()} == {(0, 0)}
        await driver.send("A", "A", queue_id=1)
        full = fastjson.read((await driver.ask(GetTopicStats(topic="t"))).body, TopicStats)
        ranges = {queue.queue_id: each for queue, each in full.queues.items()}
        assert (ranges[1].min_offset, ranges[1].max_offset) == (0, 2)
        assert ranges[1].last_update_timestamp
        assert ranges[0].last_update_timestamp is None


async def test_the_brokers_own_topics_are_listed(tmp_path: Path) -> None:
    async with both_servers(tmp_path) as servers, servers.member() as member:
        names = (await member.ask(GetBrokerSystemTopics())).names.topics
        assert {"TBW102", "SELF_TEST_TOPIC", "DefaultCluster", "broker-a"} <= names


async def test_nobody_sees_the_messages_of_a_deleted_topic_again(tmp_path: Path) -> None:
    async with driven_broker(tmp_path) as driver:
        assert (await driver.ask(create())).code == 0
        await driver.send("A", "B", "C")
        assert (await driver.ask(DeleteTopic(topic="t"))).code == 0
        assert (await driver.ask(GetTopicStats(topic="t"))).code == 17
    async with driven_broker(tmp_path) as driver:
        # It does not come back with the broker, though the log still has its messages.
        assert (await driver.ask(GetTopicStats(topic="t"))).code == 17
        assert (await driver.ask(create())).code == 0
        ends = [
            int((await driver.ask(request)).fields["offset"])
            for request in (
                GetMinOffset(topic="t", queue_id=0),
                GetMaxOffset(topic="t", queue_id=0),
            )
        ]
        assert ends[0] == ends[1]
        await driver.send("D")
        answer = await driver.ask(GetMaxOffset(topic="t", queue_id=0))
        assert QueueOffset(int(answer.fields["offset"])) == ends[1] + 1


async def test_a_topic_that_is_made_again_begins_without_messages(tmp_path: Path) -> None:
    async with both_servers(tmp_path) as servers, servers.member() as member:
        async with Producer(servers.name_server) as producer:
            await member.ask(create(write_queue_nums=1, read_queue_nums=1))
            for number in range(3):
                await producer.send("t", b"old %d" % number)
            await member.ask(DeleteTopic(topic="t"))
            await member.ask(create(write_queue_nums=1, read_queue_nums=1))
            await producer.send("t", b"new")
        first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        async with PullConsumer(servers.name_server, group="g", start=first) as consumer:
            await consumer.subscribe("t")
            found: list[bytes] = []
            async with asyncio.timeout(PATIENCE_S):
                while b"new" not in found:
                    found += [message.body for message in await consumer.poll()]
        assert found == [b"new"]


async def test_a_send_makes_no_topic_where_it_may_not(tmp_path: Path) -> None:
    async with driven_broker(tmp_path, auto_create_topics=False) as driver:
        with pytest.raises(AssertionError, match="not exist"):
            await driver.send("A", topic="new")
        assert (await driver.ask(GetTopicConfig(topic="TBW102"))).code == 17
        assert (await driver.ask(create("new"))).code == 0
        await driver.send("A", topic="new")
