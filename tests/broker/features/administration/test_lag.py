"""Offsets beside the ends of queues, against a real store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpipe.broker.features.administration.lag import Progress
from rocketpipe.broker.stats import Stats
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.consumer_group import Client, Consuming
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.subscription import Subscription
from rocketpipe.model.topic import TopicSettings
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.clock import ManualClock

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
START_MS = 1_700_000_000_000


class Parts:
    """A topic of two queues; the first has three messages, a second apart."""

    def __init__(self, root: Path) -> None:
        self.clock = ManualClock(START_MS)
        self.store = MessageStore.open(
            StoreConfig.embedded(root),
            disk=Disk(),
            clock=self.clock,
            store_host=HOST,
            threads=False,
        )
        self.topics = TopicTable(8)
        self.topic = TopicSettings(name="t", read_queues=2, write_queues=2)
        self.topics.update(self.topic, 1)
        self.offsets = OffsetTable()
        self.clients = ClientTable()
        self.stats = Stats(self.clock)
        self.progress = Progress(
            self.store, self.topics, self.offsets, self.clients, self.stats, "broker-a"
        )

    async def fill(self, topic: str = "t") -> None:
        for _ in range(3):
            put = Put(
                topic=topic,
                queue_id=0,
                body=b"x",
                properties=b"",
                flag=0,
                sys_flag=0,
                born_ms=1,
                born_host=HOST,
            )
            self.store.append([[put]])
            self.store.dispatch()
            await self.clock.advance(1000)


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    made = Parts(tmp_path)
    yield made
    made.store.close()


async def test_what_was_consumed_last_says_when_it_was_stored(parts: Parts) -> None:
    await parts.fill()
    parts.offsets.commit("g", "t", 0, QueueOffset(2))
    stats = await parts.progress.of_group("g", ["t", "none"])
    first, second = (stats.queues[queue] for queue in sorted(stats.queues))
    assert (first.broker_offset, first.consumer_offset) == (3, 2)
    assert first.last_timestamp == START_MS + 1000
    assert (second.broker_offset, second.last_timestamp) == (0, 0)


async def test_the_rate_is_the_groups_own(parts: Parts) -> None:
    parts.stats.get("g", "t", 5, 5)
    parts.stats.get("h", "t", 7, 7)
    assert (await parts.progress.of_group("g", ["t"])).consume_tps == pytest.approx(5.0)


async def test_a_span_ends_where_the_queue_does(parts: Parts) -> None:
    await parts.fill()
    parts.offsets.commit("g", "t", 0, QueueOffset(1))
    used, empty = await parts.progress.spans("g", parts.topic, parts.clock.now_ms())
    assert (used.min_time_stamp, used.max_time_stamp) == (START_MS, START_MS + 2000)
    assert used.consume_time_stamp == START_MS
    assert used.delay_time == 2000
    assert (empty.min_time_stamp, empty.max_time_stamp) == (-1, -1)
    parts.offsets.commit("g", "t", 0, QueueOffset(3))
    used, _ = await parts.progress.spans("g", parts.topic, parts.clock.now_ms())
    assert used.delay_time == 0


async def test_a_group_wants_what_its_members_subscribe_to(parts: Parts) -> None:
    assert parts.progress.wants("g", "t"), "nobody is there to say no"
    wanted = Consuming(subscriptions=(Subscription(topic="t"),))
    parts.clients.join("g", Client(connection=1, client_id="c"), wanted, 0)
    assert parts.progress.wants("g", "t")
    assert not parts.progress.wants("g", "u")
    assert parts.progress.groups_of("t") == {"g"}
    parts.offsets.commit("h", "t", 0, QueueOffset(1))
    assert parts.progress.groups_of("t") == {"g", "h"}
    assert parts.progress.topics_of("h") == ["t"]


async def test_retries_wait_for_a_group_that_has_no_place_among_them_yet(parts: Parts) -> None:
    parts.offsets.commit("g", "t", 0, QueueOffset(0))
    parts.topics.update(TopicSettings(name="%RETRY%g", read_queues=1, write_queues=1), 1)
    assert parts.progress.to_read("g") == ["t"], "its retry topic is empty"
    await parts.fill("%RETRY%g")
    assert parts.progress.to_read("g") == ["%RETRY%g", "t"]
    assert parts.progress.topics_of("g") == ["t"], "where it has places"
    stats = await parts.progress.of_group("g", parts.progress.to_read("g"))
    behind = sum(each.broker_offset - each.consumer_offset for each in stats.queues.values())
    assert behind == 3
