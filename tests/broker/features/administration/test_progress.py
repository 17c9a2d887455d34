"""How far groups have come, asked over a socket."""

from __future__ import annotations

import pytest
from tests.broker.conftest import Ask
from tests.broker.support.asking import commit, group, message, topic

from rocketpipe.errors import RequestRejected
from rocketpipe.model.subscription import Subscription
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.brokers import GetBrokerConsumeStats
from rocketpipe.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData
from rocketpipe.protocol.requests.progress import (
    GetConsumeStats,
    QueryConsumeQueue,
    QueryConsumeTimeSpan,
    QueryCorrectionOffset,
    QueryGroupsOfTopic,
    QuerySubscriptionOfGroup,
    QueryTopicsOfGroup,
)

pytestmark = pytest.mark.scenario

MOST = (1 << 63) - 1


async def beat(ask: Ask, of_group: str, *topics: str) -> None:
    subscriptions = tuple(Subscription(topic=name) for name in topics)
    consumer = ConsumerData(group_name=of_group, subscriptions=subscriptions)
    await ask(Heartbeat(data=HeartbeatData(client_id="c", consumers=(consumer,))))


async def test_progress_is_told_for_every_queue_that_can_be_read(ask: Ask) -> None:
    await ask(topic("t", 2))
    await ask(group("g"))
    for number in range(3):
        await ask(message("t", b"%d" % number))
    await ask(commit("g", "t", 2))
    stats = (await ask(GetConsumeStats(consumer_group="g"))).stats
    found = {queue.queue_id: held for queue, held in stats.queues.items()}
    assert (found[0].broker_offset, found[0].consumer_offset) == (3, 2)
    assert found[0].last_timestamp > 0
    assert (found[1].broker_offset, found[1].consumer_offset) == (0, 0)
    assert not (await ask(GetConsumeStats(consumer_group="stranger"))).stats.queues
    named = (await ask(GetConsumeStats(consumer_group="g", topic_list="t;none"))).stats
    assert len(named.queues) == 2


async def test_topics_that_a_group_gave_up_are_left_out(ask: Ask) -> None:
    for name in ("kept", "left"):
        await ask(topic(name))
        await ask(message(name))
    await beat(ask, "g", "kept")
    await ask(commit("g", "kept", 1))
    await ask(commit("g", "left", 1))
    stats = (await ask(GetConsumeStats(consumer_group="g"))).stats
    assert {queue.topic for queue in stats.queues} == {"kept"}
    named = (await ask(GetConsumeStats(consumer_group="g", topic="left"))).stats
    assert {queue.topic for queue in named.queues} == {"left"}
    assert (await ask(QueryTopicsOfGroup(group="g"))).names.topics == {"kept", "left"}
    assert (await ask(QueryGroupsOfTopic(topic="left"))).names.groups == {"g"}
    wanted = (await ask(QuerySubscriptionOfGroup(group="g", topic="kept"))).found
    assert wanted.subscription is not None
    gone = (await ask(QuerySubscriptionOfGroup(group="g", topic="left"))).found
    assert gone.subscription is None


async def test_all_groups_are_told_of_at_once_and_what_they_lack_in_sum(ask: Ask) -> None:
    await ask(topic("plain"))
    await ask(topic("straight", ordered=True))
    for name, of_group in (("plain", "g"), ("straight", "h")):
        await ask(group(of_group))
        for number in range(3):
            await ask(message(name, b"%d" % number))
        await ask(commit(of_group, name, 1))
    stats = (await ask(GetBrokerConsumeStats(is_order=False))).stats
    told = {name: found for each in stats.groups for name, found in each.items()}
    assert stats.total_diff == 4
    assert len(told["g"]) == len(told["h"]) == 1
    ordered = (await ask(GetBrokerConsumeStats(is_order=True))).stats
    assert ordered.total_diff == 2


async def test_times_are_those_of_storing(ask: Ask) -> None:
    await ask(topic("t", 2))
    for number in range(2):
        await ask(message("t", b"%d" % number))
    used, empty = (await ask(QueryConsumeTimeSpan(topic="t", group="g"))).times.spans
    assert 0 < used.min_time_stamp <= used.max_time_stamp
    assert used.consume_time_stamp == used.min_time_stamp
    assert used.delay_time >= 0
    assert (empty.min_time_stamp, empty.max_time_stamp, empty.delay_time) == (-1, -1, 0)
    with pytest.raises(RequestRejected) as unknown:
        await ask(QueryConsumeTimeSpan(topic="none", group="g"))
    assert unknown.value.code == ResponseCode.TOPIC_NOT_EXIST


async def test_the_slowest_group_is_found_unless_one_is_behind_it(ask: Ask) -> None:
    await ask(topic("t", 2))
    for of_group, at in (("slow", 1), ("quick", 3), ("odd", 0)):
        await ask(group(of_group))
        await ask(commit(of_group, "t", at))
    await ask(commit("quick", "t", 2, queue_id=1))

    async def found(compare: str, without: str) -> dict[int, int]:
        request = QueryCorrectionOffset(topic="t", compare_group=compare, filter_groups=without)
        return dict((await ask(request)).correction.offsets)

    assert await found("nobody", "odd") == {0: 1, 1: 2}
    assert await found("odd", "odd") == {0: MOST, 1: 2}
    assert await found("nobody", "") == {0: 0, 1: 2}


async def test_entries_of_a_queue_are_shown_as_they_are_stored(ask: Ask) -> None:
    await ask(topic("t"))
    first = await ask(message("t", b"1", tag="A"))
    await ask(message("t", b"2", tag="B"))
    found = (await ask(QueryConsumeQueue(topic="t", index=0, count=10))).found
    assert (found.min_queue_index, found.max_queue_index) == (0, 2)
    one, two = found.entries
    assert one.log_offset == int(first.msg_id[-16:], 16)
    assert (one.tags_code, two.tags_code) == (ord("A"), ord("B"))
    assert (await ask(QueryConsumeQueue(topic="t", index=5, count=10))).found.entries == ()
    for wrong in ({"topic": "none"}, {"topic": "t", "count": -1}, {"topic": "t", "index": -1}):
        with pytest.raises(RequestRejected):
            await ask(QueryConsumeQueue(**{"count": 1, **wrong}))
