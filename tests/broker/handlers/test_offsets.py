"""Positions against a real store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.broker.handlers.offsets import OffsetHandlers
from rocketpipe.broker.tables.groups import GroupTable
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.request import Request, to_command
from rocketpipe.protocol.requests.offsets import (
    BoundaryType,
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    QueryConsumerOffset,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)
from rocketpipe.remoting.connection import ConnectionLimits, PeerConnection
from rocketpipe.remoting.router import Router
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.errors import StoreFailed
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.clock import ManualClock

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
START_MS = 1_700_000_000_000


class Broker:
    """A store with a queue of five messages, a second apart, and a group that knows nothing."""

    def __init__(self, root: Path) -> None:
        self.clock = ManualClock(START_MS)
        self.store = MessageStore.open(
            StoreConfig.embedded(root, segment_bytes=4096, queue_file_bytes=200),
            disk=Disk(),
            clock=self.clock,
            store_host=HOST,
            threads=False,
        )
        self.topics = TopicTable(8)
        self.topics.update(TopicSettings(name="t", read_queues=2, write_queues=3), 1)
        self.groups = GroupTable()
        self.groups.update(GroupSettings(name="g"), 1)
        self.offsets = OffsetTable(limit=2)
        handlers = OffsetHandlers(self.store, self.offsets, self.topics, self.groups)
        self.router = Router(handlers)

    async def put(self, count: int, body: bytes = b"body") -> None:
        for _ in range(count):
            put = Put(
                topic="t",
                queue_id=0,
                body=body,
                properties=b"",
                flag=0,
                sys_flag=0,
                born_ms=1,
                born_host=HOST,
            )
            self.store.append([[put]])
            self.store.dispatch()
            await self.clock.advance(1000)

    async def ask(self, request: Request[Any]) -> Command:
        peer = PeerConnection(self.router.answer, limits=ConnectionLimits())
        return await self.router.answer(to_command(request, 1), peer)

    async def number(self, request: Request[Any], name: str = "offset") -> int:
        answer = await self.ask(request)
        assert answer.code == 0, answer.remark
        return int(answer.fields[name])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path)
    yield made
    made.store.close()


def query(*, zero: bool | None = None, **changes: Any) -> QueryConsumerOffset:
    values = {"consumer_group": "g", "topic": "t", "queue_id": 0, **changes}
    return QueryConsumerOffset(set_zero_if_not_found=zero, **values)


def commit(offset: int, **changes: Any) -> UpdateConsumerOffset:
    values = {"consumer_group": "g", "topic": "t", "queue_id": 0, **changes}
    return UpdateConsumerOffset(commit_offset=QueueOffset(offset), **values)


async def test_a_committed_offset_is_found_again(broker: Broker) -> None:
    assert (await broker.ask(commit(12))).code == 0
    assert await broker.number(query(zero=False)) == 12
    assert await broker.number(query()) == 12


async def test_a_new_group_begins_at_zero_while_the_queue_does(broker: Broker) -> None:
    assert await broker.number(query()) == 0
    await broker.put(1)
    assert await broker.number(query(zero=True)) == 0
    assert await broker.number(query(consumer_group="unknown")) == 0


async def test_a_client_that_wants_to_know_is_told_that_there_is_none(broker: Broker) -> None:
    answer = await broker.ask(query(zero=False))
    assert (answer.code, answer.fields) == (22, {})


async def test_a_new_group_is_told_that_the_queues_start_is_gone(broker: Broker) -> None:
    await broker.put(20, bytes(600))
    broker.store.flush()
    broker.store.delete_before(LogOffset(8192))
    assert broker.store.min_offset("t", 0) > 0
    assert (await broker.ask(query())).code == 22
    await broker.ask(commit(3))
    assert await broker.number(query()) == 3


async def test_minus_one_which_some_clients_send_is_answered_and_not_kept(broker: Broker) -> None:
    assert (await broker.ask(commit(-1))).code == 0
    assert (await broker.ask(query(zero=False))).code == 22


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"consumer_group": "unknown"}, 26),
        ({"topic": "unknown"}, 17),
        ({"queue_id": 3}, 29),
        ({"queue_id": -1}, 29),
        ({"consumer_group": "../g"}, 29),
        ({"topic": "../t"}, 29),
    ],
)
async def test_a_commit_of_what_is_not_there_is_refused(
    broker: Broker, changes: dict[str, Any], code: int
) -> None:
    answer = await broker.ask(commit(1, **changes))
    assert answer.code == code
    assert str(next(iter(changes.values()))) in str(answer.remark)
    assert not list(broker.offsets.all())


async def test_one_place_too_many_is_refused_and_those_that_are_there_move(broker: Broker) -> None:
    await broker.ask(commit(1))
    await broker.ask(commit(1, queue_id=1))
    answer = await broker.ask(commit(1, queue_id=2))
    assert answer.code == 1
    assert "takes no more" in str(answer.remark)
    assert (await broker.ask(commit(2))).code == 0


async def test_the_ends_of_a_queue_follow_what_is_stored(broker: Broker) -> None:
    ends = {"topic": "t", "queue_id": 0}
    assert await broker.number(GetMinOffset(**ends)) == 0
    assert await broker.number(GetMaxOffset(**ends)) == 0
    assert await broker.number(GetEarliestStoreTime(**ends), "timestamp") == -1
    await broker.put(5)
    assert await broker.number(GetMinOffset(**ends)) == 0
    assert await broker.number(GetMaxOffset(**ends)) == 5
    assert await broker.number(GetMaxOffset(**ends, committed=False)) == 5
    assert await broker.number(GetEarliestStoreTime(**ends), "timestamp") == START_MS


@pytest.mark.parametrize(
    ("after_ms", "lower", "upper"),
    [(-1, 0, 0), (0, 0, 0), (1, 1, 0), (2000, 2, 2), (2999, 3, 2), (4000, 4, 4), (4001, 5, 4)],
)
async def test_a_moment_has_a_message_before_and_one_after(
    broker: Broker, after_ms: int, lower: int, upper: int
) -> None:
    await broker.put(5)

    def search(boundary: BoundaryType) -> SearchOffsetByTimestamp:
        return SearchOffsetByTimestamp(
            topic="t", queue_id=0, timestamp=START_MS + after_ms, boundary_type=boundary
        )

    assert await broker.number(search(BoundaryType.LOWER)) == lower
    assert await broker.number(search(BoundaryType.UPPER)) == upper


async def test_a_commit_is_answered_when_it_is_on_the_disk_if_that_is_asked_for(
    broker: Broker,
) -> None:
    on_disk = asyncio.Event()
    broken = [False]

    async def saved() -> None:
        await on_disk.wait()
        if broken[0]:
            raise StoreFailed("the disk is broken")

    broker.router = Router(
        OffsetHandlers(broker.store, broker.offsets, broker.topics, broker.groups, saved)
    )
    commit = UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=0, commit_offset=3)
    asking = asyncio.create_task(broker.ask(commit))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not asking.done()
    on_disk.set()
    assert (await asking).code == 0
    broken[0] = True
    refused = await broker.ask(commit)
    assert refused.code == 1
    assert "not on the disk" in str(refused.remark)


async def test_a_queue_that_is_not_there_is_empty(broker: Broker) -> None:
    for topic, queue_id in (("unknown", 0), ("t", 9)):
        where: dict[str, Any] = {"topic": topic, "queue_id": queue_id}
        assert await broker.number(GetMinOffset(**where)) == 0
        assert await broker.number(GetMaxOffset(**where)) == 0
        assert await broker.number(SearchOffsetByTimestamp(**where, timestamp=START_MS)) == 0
        assert await broker.number(GetEarliestStoreTime(**where), "timestamp") == -1


@pytest.mark.parametrize(
    "where", [{"topic": "../t", "queue_id": 0}, {"topic": "t", "queue_id": -1}]
)
async def test_what_cannot_be_a_queue_is_refused(broker: Broker, where: dict[str, Any]) -> None:
    for request in (
        query(**where),
        GetMinOffset(**where),
        GetMaxOffset(**where),
        SearchOffsetByTimestamp(**where, timestamp=0),
        GetEarliestStoreTime(**where),
    ):
        assert (await broker.ask(request)).code == 29
