"""Parts and commits as they come over the wire."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.leader_parts import Told, elected
from tests.broker.support.scripted_follower import following
from tests.broker.support.staging_parts import StagingParts, staged
from tests.waiting import until

from rocketpipe.broker.replication.epochs import EpochTable
from rocketpipe.broker.replication.leading.followers import Followers
from rocketpipe.broker.replication.leading.ha_port import ha_port
from rocketpipe.errors import RequestRejected
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.staging import (
    AskStages,
    ListStaged,
    SettleStages,
    Share,
    write_plan,
)
from rocketpipe.store.files.disk import Disk
from rocketpipe.testing.clock import ManualClock


@pytest.fixture
def parts(tmp_path: Path) -> StagingParts:
    return StagingParts(tmp_path, ManualClock())


@pytest.mark.parametrize(
    ("changes", "code", "reason"),
    [
        ({"application": ""}, ResponseCode.INVALID_PARAMETER, "application has 1 to 255"),
        ({"application": "a\x01"}, ResponseCode.INVALID_PARAMETER, "can be printed"),
        ({"stage": "s" * 256}, ResponseCode.INVALID_PARAMETER, "stage has 1 to 255"),
        ({"batch": -1}, ResponseCode.INVALID_PARAMETER, "neither is negative"),
        ({"part": -1}, ResponseCode.INVALID_PARAMETER, "neither is negative"),
        ({"topic": "no good"}, ResponseCode.INVALID_PARAMETER, "not one of"),
        ({"topic": "rmq_sys_STAGED_SENDS"}, ResponseCode.INVALID_PARAMETER, "only brokers write"),
        ({"queue_id": 4}, ResponseCode.INVALID_PARAMETER, "has 4"),
        (
            {"topic": "new", "default_topic": "nothing"},
            ResponseCode.TOPIC_NOT_EXIST,
            "does not create it",
        ),
        ({"body": b""}, ResponseCode.MESSAGE_ILLEGAL, "without messages"),
        ({"body": b"\x00\x00\x00\x63rest"}, ResponseCode.MESSAGE_ILLEGAL, "no entry"),
        ({"properties": b"TRAN_MSG\x01true\x02"}, ResponseCode.MESSAGE_ILLEGAL, "half one"),
        ({"properties": b"DELAY\x01soon\x02"}, ResponseCode.MESSAGE_ILLEGAL, "whole number"),
        ({"properties": b"n\x01" + b"x" * 32_500}, ResponseCode.MESSAGE_ILLEGAL, "a room of"),
    ],
)
async def test_a_part_that_could_not_be_shown_is_refused_at_once(
    parts: StagingParts, changes: dict[str, Any], code: int, reason: str
) -> None:
    with pytest.raises(RequestRejected, match=reason) as caught:
        await parts.ask(staged(changes.pop("stage", "s"), b"body", **changes))
    assert caught.value.code == code


@pytest.mark.parametrize("asks", [b"", b"DELAY\x011\x02", b"TIMER_DELAY_MS\x011000\x02"])
async def test_a_part_leaves_room_for_what_comes_after_its_commit(
    parts: StagingParts, asks: bytes
) -> None:
    for size in (31_200, 31_900):
        text = asks + b"UNIQ_KEY\x01K\x02n\x01" + b"x" * size + b"\x02"
        if size == 31_200:
            await parts.ask(staged("s", b"body", properties=text))
        else:
            with pytest.raises(RequestRejected, match="a room of") as caught:
                await parts.ask(staged("s", b"body", properties=text, part=1))
            assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL


async def test_a_stage_is_of_one_batch(parts: StagingParts) -> None:
    await parts.stage("s", b"a")
    with pytest.raises(RequestRejected, match="name a new one"):
        await parts.stage("s", b"a", batch=1, part=1)


async def test_a_queue_is_picked_where_none_is_named(parts: StagingParts) -> None:
    await parts.stage("s", b"a", queue_id=-1)
    await parts.commit({"s": 1})
    assert parts.bodies() == [b"a"]


async def test_a_commit_of_nothing_asks_whether_it_can_be_done(parts: StagingParts) -> None:
    assert not (await parts.commit({}, app="", batch=-1)).duplicate
    with pytest.raises(RequestRejected, match="application has 1 to 255"):
        await parts.commit({}, app="")


async def test_a_broker_that_may_not_be_written_stages_nothing(tmp_path: Path) -> None:
    parts = StagingParts(tmp_path, ManualClock(), config={"permission": 4})
    with pytest.raises(RequestRejected, match="read-only"):
        await parts.stage("s", b"a")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"home": ""}, "home has 1 to 255"),
        ({"token": "a b "}, "token has 1 to 255"),
        ({"batch": -1}, "batch -1, 1 stages"),
        ({"named": {}}, "batch 0, 0 stages"),
        ({"named": {"": 1}}, "stage has 1 to 255"),
    ],
)
async def test_a_preparation_that_makes_no_sense_is_refused(
    parts: StagingParts, changes: dict[str, Any], reason: str
) -> None:
    await parts.stage("s", b"a")
    with pytest.raises(RequestRejected, match=reason) as caught:
        await parts.prepare(changes.pop("named", {"s": 1}), **changes)
    assert caught.value.code == ResponseCode.INVALID_PARAMETER


async def test_what_was_decided_is_told_to_whoever_asks(parts: StagingParts) -> None:
    ask = AskStages(application="app", batch=0, broker_name="b", given_up="t1,t2")
    assert not (await parts.ask(ask)).decided
    with pytest.raises(RequestRejected, match="let go of its share"):
        await parts.commit({}, plan="p", token="t2")
    plan = write_plan({"b": Share(stages={"s": 1})})
    await parts.commit({}, plan=plan, token="t3")
    told = await parts.ask(ask)
    assert (told.decided, told.outcome.plan) == (True, plan)
    await parts.ask(SettleStages(application="app", batch=0, share="b"))
    told = await parts.ask(ask)
    assert (told.decided, told.outcome.plan) == (True, None)
    with pytest.raises(RequestRejected, match="token has 1 to 255"):
        await parts.ask(AskStages(application="app", batch=0, broker_name="b", given_up="\x01"))


async def test_what_was_committed_is_listed(parts: StagingParts) -> None:
    assert (await parts.ask(ListStaged())).staged.applications == ()
    await parts.stage("s", b"a")
    await parts.commit({"s": 1})
    (found,) = (await parts.ask(ListStaged())).staged.applications
    assert (found.application, found.batches, found.contents) == ("app", (0,), {})


async def test_a_part_is_of_its_topics_type(parts: StagingParts) -> None:
    kinds = (("normal", {"message.type": "NORMAL"}), ("last", {"cleanup.policy": "COMPACTION"}))
    for name, attributes in kinds:
        parts.tables.topics.update(TopicSettings(name=name, attributes=attributes), 1)
    delayed = b"DELAY\x013\x02UNIQ_KEY\x01K\x02"
    for topic, text, reason in (
        ("normal", delayed, "expected type is NORMAL"),
        ("last", b"", "key is missing"),
    ):
        with pytest.raises(RequestRejected, match=reason):
            await parts.stage("s", b"a", topic=topic, properties=text)
    await parts.stage("s", b"a", topic="normal")
    await parts.stage("s", b"a", part=1, topic="last", properties=b"KEYS\x01k\x02")


async def test_with_replicas_a_part_is_answered_when_they_have_it(tmp_path: Path) -> None:
    clock = ManualClock()
    async with ha_port("127.0.0.1", 0) as port:
        parts = StagingParts(tmp_path, clock)
        config = elected(slave_timeout_ms=1000, max_lag_ms=10**6, silence_ms=10**6)
        followers = Followers(
            parts.store,
            EpochTable(Disk(), tmp_path / "epochFileCheckpoint"),
            clock,
            config,
            me=1,
            epoch=1,
            in_sync=frozenset({1, 2}),
            change_in_sync=Told(),
            moved=parts.visibility.dispatch,
            hold=parts.pins.hold,
        )
        port.serve(lambda: followers)
        parts.visibility.standing.followers = followers
        staging = asyncio.create_task(parts.stage("one", b"a"))
        while not staging.done():
            await clock.advance(100)
        with pytest.raises(RequestRejected, match="not acknowledged in time"):
            await staging
        async with following(port.address, 2) as replica:
            replica.reports = True
            await until(lambda: parts.store.positions.confirmed == parts.store.positions.written)
            assert not await parts.stage("one", b"a")
            await parts.commit({"one": 1})
            assert parts.bodies() == [b"a"]
        parts.visibility.standing.refusal = (14, "leads no longer")
        end = parts.store.positions.written
        with pytest.raises(RequestRejected, match="leads no longer"):
            await parts.stage("two", b"b", batch=1)
        assert parts.store.positions.written == end
        followers.fail(14, "over")
