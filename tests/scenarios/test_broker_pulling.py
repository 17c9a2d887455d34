"""Pulls over a real socket: every answer, and every refusal with its code and remark."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.scenarios.support.raw_broker import Driver, driven_broker
from tests.waiting import PATIENCE_S

from rocketpipe.broker.tables.tables import Tables
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.subscription import SQL92, MessageModel, Subscription
from rocketpipe.model.topic import Perm, TopicSettings
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.requests.offsets import QueryConsumerOffset
from rocketpipe.protocol.requests.pulling import PullMessage
from rocketpipe.record.codec import view_records
from rocketpipe.testing.clock import ManualClock

pytestmark = pytest.mark.scenario

OWN = int(PullFlag.SUBSCRIPTION)
WAIT = int(PullFlag.SUSPEND)


def pull(offset: int = 0, **changes: Any) -> PullMessage:
    values: dict[str, Any] = {
        "consumer_group": "g",
        "topic": "t",
        "queue_id": 0,
        "queue_offset": QueueOffset(offset),
        "max_msg_nums": 32,
        "sys_flag": OWN,
        "commit_offset": QueueOffset(0),
        "suspend_timeout_millis": 15_000,
        "subscription": "*",
        "sub_version": 0,
    }
    return PullMessage(**{**values, **changes})


def sql(expression: str, **changes: Any) -> PullMessage:
    return pull(expression_type=SQL92, subscription=expression, **changes)


def tags(answer: Command) -> list[str | None]:
    assert answer.code == 0, answer.remark
    return [message.tags for message in view_records(answer.body)]


def told(answer: Command) -> tuple[int, str | None, str, str, str, str]:
    names = ("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset")
    broker_id, after, least, greatest = (answer.fields[name] for name in names)
    return answer.code, answer.remark, broker_id, after, least, greatest


async def test_every_answer_of_a_queue(tmp_path: Path) -> None:
    async with driven_broker(tmp_path) as driver:
        await driver.send("A", "B")
        found = await driver.ask(pull(0))
        assert told(found) == (0, "FOUND", "0", "2", "0", "2")
        assert tags(found) == ["A", "B"]
        assert told(await driver.ask(pull(2))) == (19, "OFFSET_OVERFLOW_ONE", "0", "2", "0", "2")
        assert told(await driver.ask(pull(9))) == (21, "OFFSET_OVERFLOW_BADLY", "0", "2", "0", "2")
        empty = await driver.ask(pull(0, queue_id=1))
        assert told(empty) == (19, "NO_MATCHED_LOGIC_QUEUE", "0", "0", "0", "0")
        assert (await driver.ask(pull(7, queue_id=1))).code == 21
        none = await driver.ask(pull(0, subscription="C"))
        assert told(none) == (20, "NO_MATCHED_MESSAGE", "0", "2", "0", "2")
        lite = pull(0, sys_flag=OWN | PullFlag.LITE_PULL)
        assert tags(await driver.ask(lite)) == ["A", "B"]


async def test_a_group_reads_by_its_heartbeats(tmp_path: Path) -> None:
    async with driven_broker(tmp_path) as driver:
        await driver.send("A", "B", a="1")
        assert (await driver.ask(pull(0, sys_flag=0))).code == 24
        await driver.join(Subscription(topic="t", expression="B", version=3))
        assert tags(await driver.ask(pull(0, sys_flag=0, sub_version=3))) == ["B"]
        assert (await driver.ask(pull(0, sys_flag=0, sub_version=4))).code == 25
        by_sql = Subscription(topic="t", expression="TAGS='A'", expression_type=SQL92, version=4)
        await driver.join(by_sql)
        assert tags(await driver.ask(pull(0, sys_flag=0, sub_version=4))) == ["A"]
        await driver.join(msgspec.structs.replace(by_sql, expression="TAGS=", version=5))
        assert (await driver.ask(pull(0, sys_flag=0, sub_version=5))).code == 27


async def test_sql_that_comes_with_the_pull(tmp_path: Path) -> None:
    async with driven_broker(tmp_path) as driver:
        for number in range(5):
            await driver.send(f"n{number}", a=number)
        assert tags(await driver.ask(sql("a > 2"))) == ["n3", "n4"]
        assert (await driver.ask(sql("a >"))).code == 23
        assert (await driver.ask(sql("a > 9"))).code == 20


async def test_waiting_pulls_are_woken_by_what_they_want(tmp_path: Path) -> None:
    async with driven_broker(tmp_path) as driver:
        await driver.send("A")
        by_tag = driver.start(pull(1, sys_flag=OWN | WAIT, subscription="B"))
        by_sql = driver.start(sql("a = '2'", queue_offset=QueueOffset(1), sys_flag=OWN | WAIT))
        await driver.send("C", a=1)
        assert not by_tag.done()
        assert not by_sql.done()
        await driver.send("B", a=1)
        async with asyncio.timeout(PATIENCE_S):
            assert tags(await by_tag) == ["B"]
        assert not by_sql.done()
        await driver.send("D", a=2)
        async with asyncio.timeout(PATIENCE_S):
            assert tags(await by_sql) == ["D"]


async def test_a_wait_is_as_long_as_was_asked_for(tmp_path: Path) -> None:
    clock = ManualClock()
    async with driven_broker(tmp_path, clock=clock) as driver:
        await driver.send("A")
        short = driver.start(pull(1, sys_flag=OWN | WAIT, suspend_timeout_millis=4000, queue_id=0))
        long = driver.start(pull(1, sys_flag=OWN | WAIT, suspend_timeout_millis=60_000))
        # The broker has both when it has answered what was asked behind them.
        await driver.ask(pull(1))
        await clock.advance(3900)
        assert (await driver.ask(pull(1))).code == 19
        assert not short.done()
        await clock.advance(400)
        async with asyncio.timeout(PATIENCE_S):
            assert told(await short)[:2] == (19, "OFFSET_OVERFLOW_ONE")
        await clock.advance(25_000)
        assert (await driver.ask(pull(1))).code == 19
        assert not long.done()
        await clock.advance(1000)  # no pull waits longer than the broker's 30 s
        async with asyncio.timeout(PATIENCE_S):
            assert (await long).code == 19


async def test_without_the_flag_nothing_waits(tmp_path: Path) -> None:
    async with driven_broker(tmp_path, clock=ManualClock()) as driver:
        await driver.send("A")
        for _ in range(100):
            assert (await driver.ask(pull(1))).code == 19


async def test_one_wait_too_many_is_refused(tmp_path: Path) -> None:
    async with driven_broker(tmp_path, max_waiting_pulls=1) as driver:
        await driver.send("A")
        waits = driver.start(pull(1, sys_flag=OWN | WAIT))
        refused = await driver.ask(pull(1, sys_flag=OWN | WAIT))
        assert refused.code == 2
        assert "pullThreadPoolQueueCapacity" in str(refused.remark)
        await driver.send("B")
        async with asyncio.timeout(PATIENCE_S):
            assert tags(await waits) == ["B"]


async def test_a_lost_connection_leaves_no_pull_behind(tmp_path: Path) -> None:
    async with driven_broker(tmp_path, max_waiting_pulls=1) as driver:
        await driver.send("A")
        other = await Driver.to(driver.address)
        other.start(pull(1, sys_flag=OWN | WAIT))
        await other.ask(pull(1))
        assert (await driver.ask(pull(1, sys_flag=OWN | WAIT))).code == 2
        await other.close()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                waits = driver.start(pull(1, sys_flag=OWN | WAIT))
                await driver.ask(pull(1))
                if not waits.done():
                    break
        await driver.send("B")
        assert tags(await waits) == ["B"]


async def test_the_offset_that_comes_with_a_pull_is_kept(tmp_path: Path) -> None:
    async with driven_broker(tmp_path) as driver:
        await driver.send("A")
        flag = OWN | PullFlag.COMMIT_OFFSET
        await driver.ask(pull(0, sys_flag=flag, commit_offset=QueueOffset(1)))
        await driver.ask(pull(0, sys_flag=flag, commit_offset=QueueOffset(-1)))
        query = QueryConsumerOffset(
            consumer_group="g", topic="t", queue_id=0, set_zero_if_not_found=False
        )
        assert (await driver.ask(query)).fields["offset"] == "1"


async def test_a_bulk_pull_gets_more_than_32(tmp_path: Path) -> None:
    async with driven_broker(tmp_path) as driver:
        await driver.send(*["A"] * 50)
        assert len(tags(await driver.ask(pull(0, max_msg_nums=4096)))) == 32
        assert len(tags(await driver.ask(pull(0, max_msg_nums=4096, bulk=True)))) == 50


# Refusals


def closed(tables: Tables) -> None:
    """Topics and groups of which each lacks one thing."""
    for name, perm in (("t", 6), ("written-only", int(Perm.WRITE))):
        tables.topics.update(TopicSettings(name=name, read_queues=2, write_queues=2, perm=perm), 1)
    for settings in (
        GroupSettings(name="g"),
        GroupSettings(name="off", consume_enable=False),
        GroupSettings(name="no-broadcast", consume_broadcast_enable=False),
        GroupSettings(name="kept-out"),
    ):
        tables.groups.update(settings, 1)
    tables.groups.forbid("kept-out", "t", int(Perm.READ), 1)


@pytest.mark.parametrize(
    ("changes", "code", "forbidden", "remark"),
    [
        ({"consumer_group": "off"}, 16, "2", "subscription group no permission, off"),
        ({"topic": "nowhere"}, 17, None, "topic[nowhere] not exist"),
        ({"topic": "written-only"}, 16, "3", "the topic[written-only] pulling message"),
        ({"queue_id": 2}, 29, None, "queueId[2] is illegal, topic:[t]"),
        ({"queue_id": -1}, 29, None, "queueId[-1] is illegal"),
        ({"subscription": "||"}, 23, None, "parse the consumer's subscription failed"),
        ({"sys_flag": 0}, 24, None, "the consumer's group info not exist"),
        ({"sys_flag": OWN | 8}, 1, None, "filter message by class"),
        ({"consumer_group": "../g"}, 29, None, "group '../g'"),
        ({"topic": "../t"}, 29, None, "topic '../t'"),
    ],
)
async def test_each_refusal_has_its_code_and_remark(
    tmp_path: Path, changes: dict[str, Any], code: int, forbidden: str | None, remark: str
) -> None:
    async with driven_broker(tmp_path, prepare=closed) as driver:
        answer = await driver.ask(pull(0, **changes))
        assert (answer.code, answer.fields.get("forbiddenType")) == (code, forbidden)
        assert remark in str(answer.remark)
        # The connection goes on.
        assert (await driver.ask(pull(0))).code == 19


async def test_refusals_that_depend_on_members(tmp_path: Path) -> None:
    async with driven_broker(tmp_path, prepare=closed) as driver:
        wanted = Subscription(topic="t", version=1)
        await driver.join(wanted, group="no-broadcast", model=MessageModel.BROADCASTING)
        answer = await driver.ask(pull(0, sys_flag=0, consumer_group="no-broadcast"))
        assert (answer.code, answer.fields["forbiddenType"]) == (16, "4")
        assert "can not consume by broadcast way" in str(answer.remark)
        await driver.join(wanted, group="kept-out")
        answer = await driver.ask(pull(0, sys_flag=0, consumer_group="kept-out"))
        assert (answer.code, answer.fields["forbiddenType"]) == (16, "5")
        await driver.join(Subscription(topic="other"), group="g")
        answer = await driver.ask(pull(0, sys_flag=0))
        assert (answer.code, "subscription not exist" in str(answer.remark)) == (24, True)


@pytest.mark.parametrize(
    ("settings", "request_changes", "code", "remark"),
    [
        ({"permission": 2}, {}, 16, "the broker pulling message is forbidden"),
        ({"lite_pull": False}, {"sys_flag": OWN | 16}, 16, "for lite pull consumer is forbidden"),
        (
            {"property_filter": False},
            {"expression_type": SQL92, "subscription": "a > 1"},
            1,
            "does not support consumer to filter message by SQL92",
        ),
        ({"auto_create_groups": False}, {"consumer_group": "new"}, 26, "[new] does not exist"),
    ],
)
async def test_what_a_setting_forbids(
    tmp_path: Path,
    settings: dict[str, Any],
    request_changes: dict[str, Any],
    code: int,
    remark: str,
) -> None:
    async with driven_broker(tmp_path, prepare=closed, **settings) as driver:
        answer = await driver.ask(pull(0, **request_changes))
        assert answer.code == code
        assert remark in str(answer.remark)
        assert answer.fields.get("forbiddenType") == ("1" if code == 16 else None)
