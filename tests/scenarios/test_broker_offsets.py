"""Positions over a real socket: every answer, and every refusal with its code and remark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.support.raw_broker import driven_broker

from rocketpipe.broker.tables.tables import Tables
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.offsets import (
    BoundaryType,
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    QueryConsumerOffset,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)
from rocketpipe.testing.clock import ManualClock

pytestmark = pytest.mark.scenario

QUEUE: dict[str, Any] = {"topic": "t", "queue_id": 0}


def known(tables: Tables) -> None:
    tables.topics.update(TopicSettings(name="t", read_queues=2, write_queues=2), 1)
    tables.groups.update(GroupSettings(name="g"), 1)


def commit(offset: int, **changes: Any) -> UpdateConsumerOffset:
    values = {"consumer_group": "g", **QUEUE, **changes}
    return UpdateConsumerOffset(commit_offset=QueueOffset(offset), **values)


def query(zero: bool | None = None, **changes: Any) -> QueryConsumerOffset:
    values = {"consumer_group": "g", **QUEUE, **changes}
    return QueryConsumerOffset(set_zero_if_not_found=zero, **values)


async def test_a_groups_place_is_kept_and_outlives_the_broker(tmp_path: Path) -> None:
    async with driven_broker(tmp_path, prepare=known) as driver:
        fresh = await driver.ask(query())
        assert (fresh.code, fresh.fields) == (0, {"offset": "0"})
        unknown = await driver.ask(query(zero=False))
        assert (unknown.code, unknown.fields) == (22, {})
        assert "Not found" in str(unknown.remark)
        assert (await driver.ask(commit(-1))).code == 0
        assert (await driver.ask(query(zero=False))).code == 22
        assert (await driver.ask(commit(7))).code == 0
    async with driven_broker(tmp_path) as driver:
        assert (await driver.ask(query(zero=False))).fields == {"offset": "7"}


@pytest.mark.parametrize(
    ("request_", "code", "remark"),
    [
        (commit(1, consumer_group="new"), 26, "Group new not exist!"),
        (commit(1, topic="new"), 17, "Topic new not exist!"),
        (commit(1, queue_id=2), 29, "queueId[2] is illegal"),
        (commit(1, consumer_group="../g"), 29, "group '../g'"),
        (query(topic="../t"), 29, "topic '../t'"),
        (query(consumer_group="a b"), 29, "group 'a b'"),
        (GetMaxOffset(topic="../t", queue_id=0), 29, "topic '../t'"),
        (GetMinOffset(topic="t", queue_id=-1), 29, "queueId[-1] is illegal"),
        (SearchOffsetByTimestamp(topic="", queue_id=0, timestamp=0), 29, "is blank"),
        (GetEarliestStoreTime(topic="t/x", queue_id=0), 29, "topic 't/x'"),
    ],
)
async def test_each_refusal_has_its_code_and_remark(
    tmp_path: Path, request_: Request[Any], code: int, remark: str
) -> None:
    async with driven_broker(tmp_path, prepare=known) as driver:
        answer = await driver.ask(request_)
        assert answer.code == code
        assert remark in str(answer.remark)


async def test_the_ends_of_a_queue_and_the_messages_around_a_moment(tmp_path: Path) -> None:
    clock = ManualClock()
    async with driven_broker(tmp_path, clock=clock, prepare=known) as driver:
        assert (await driver.ask(GetEarliestStoreTime(**QUEUE))).fields == {"timestamp": "-1"}
        first_ms = clock.now_ms()
        for tag in "ABC":
            await driver.send(tag)
            await clock.advance(1000)

        async def at(after_ms: int, boundary: BoundaryType) -> str:
            request = SearchOffsetByTimestamp(
                **QUEUE, timestamp=first_ms + after_ms, boundary_type=boundary
            )
            return (await driver.ask(request)).fields["offset"]

        assert (await driver.ask(GetMinOffset(**QUEUE))).fields == {"offset": "0"}
        assert (await driver.ask(GetMaxOffset(**QUEUE))).fields == {"offset": "3"}
        earliest = await driver.ask(GetEarliestStoreTime(**QUEUE))
        assert earliest.fields == {"timestamp": str(first_ms)}
        assert [await at(after, BoundaryType.LOWER) for after in (-5, 1, 1000, 9000)] == [
            *("0", "1", "1", "3")
        ]
        assert [await at(after, BoundaryType.UPPER) for after in (-5, 1, 1000, 9000)] == [
            *("0", "0", "1", "2")
        ]
