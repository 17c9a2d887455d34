"""Stages and commits: what shows when, what is kept, what a restart finds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.sending_parts import put
from tests.broker.support.staging_parts import EXPIRY_MS, LEDGER_MS, StagingParts

from rocketpipe.broker.features.staging.prepared import PreparedTable
from rocketpipe.errors import RequestRejected
from rocketpipe.model.names import SCHEDULE_TOPIC, STAGING_TOPIC, TIMER_TOPIC
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.staging import Share, StageList, read_plan, write_plan
from rocketpipe.store.config import FlushMode
from rocketpipe.testing.clock import ManualClock


@pytest.fixture
def parts(tmp_path: Path) -> StagingParts:
    return StagingParts(tmp_path, ManualClock())


def reborn(parts: StagingParts, tmp_path: Path, **changes: Any) -> StagingParts:
    """The next run, after the last was killed."""
    parts.abandon()
    return StagingParts(tmp_path, parts.clock, **changes)


async def test_nothing_shows_before_the_commit_and_all_of_it_after(parts: StagingParts) -> None:
    await parts.stage("one", b"a", b"b")
    await parts.stage("one", b"c", part=1, queue_id=2)
    await parts.stage("two", b"d", queue_id=1)
    assert parts.bodies() == []
    told = await parts.commit({"one": 2, "two": 1})
    assert not told.duplicate
    assert parts.bodies() == [b"a", b"b", b"d", b"c"]
    [first, *_] = parts.stored("t")
    assert first.properties["CLUSTER"] == parts.config.cluster
    assert len(first.properties["UNIQ_KEY"]) == 32
    assert first.born_ms == 5


async def test_a_commit_happens_once_however_often_it_is_repeated(parts: StagingParts) -> None:
    await parts.stage("one", b"a")
    first, *others = await asyncio.gather(*(parts.commit({"one": 1}) for _ in range(3)))
    assert (first.duplicate, [other.duplicate for other in others]) == (False, [True, True])
    assert await parts.stage("again", b"a")
    assert (await parts.commit({"again": 1})).duplicate
    assert parts.bodies() == [b"a"]


async def test_stages_that_a_commit_does_not_name_never_show(
    parts: StagingParts, tmp_path: Path
) -> None:
    await parts.stage("winner", b"a")
    await parts.stage("loser", b"b")
    await parts.commit({"winner": 1})
    with pytest.raises(RequestRejected, match="there is no stage 'loser'"):
        await parts.commit({"loser": 1}, batch=1)
    parts = reborn(parts, tmp_path)
    with pytest.raises(RequestRejected, match="there is no stage 'loser'"):
        await parts.commit({"loser": 1}, batch=1)
    assert parts.bodies() == [b"a"]


async def test_a_part_that_is_sent_twice_counts_once(parts: StagingParts) -> None:
    for _ in range(3):
        await parts.stage("one", b"a")
    assert parts.store.max_offset(STAGING_TOPIC, 0) == 1
    await parts.commit({"one": 1})
    assert parts.bodies() == [b"a"]


@pytest.mark.parametrize(
    ("named", "batch", "reason"),
    [
        ({"one": 2}, 0, "has 1 parts here, not 2"),
        ({"one": 1, "two": 1}, 0, "there is no stage 'two'"),
        ({"one": 1}, 3, "is of batch 0 of 'app'"),
    ],
)
async def test_a_commit_whose_stages_are_not_whole_commits_nothing(
    parts: StagingParts, named: dict[str, int], batch: int, reason: str
) -> None:
    await parts.stage("one", b"a")
    with pytest.raises(RequestRejected, match=reason):
        await parts.commit(named, batch=batch)
    assert parts.bodies() == []
    await parts.commit({"one": 1})
    assert parts.bodies() == [b"a"]


async def test_a_restart_finds_stages_commits_and_plans(
    parts: StagingParts, tmp_path: Path
) -> None:
    await parts.stage("one", b"a", batch=7)
    await parts.commit({"one": 1}, batch=7, plan="elsewhere")
    await parts.stage("two", b"b", batch=8)
    parts = reborn(parts, tmp_path)
    told = await parts.commit({"new": 1}, batch=7)
    assert (told.duplicate, told.outcome.plan) == (True, "elsewhere")
    await parts.commit({"two": 1}, batch=8)
    assert parts.bodies() == [b"a", b"b"]


async def test_delayed_messages_are_delayed_from_the_commit_on(parts: StagingParts) -> None:
    await parts.stage("one", b"later", properties=b"DELAY\x013\x02UNIQ_KEY\x01K\x02")
    assert parts.stored(SCHEDULE_TOPIC, 2) == []
    await parts.commit({"one": 1})
    [waiting] = parts.stored(SCHEDULE_TOPIC, 2)
    assert (waiting.body, waiting.properties["REAL_TOPIC"]) == (b"later", "t")
    assert parts.bodies() == []


async def test_a_stage_that_nobody_commits_expires(parts: StagingParts, tmp_path: Path) -> None:
    await parts.stage("old", b"a")
    await parts.clock.advance(EXPIRY_MS)
    await parts.stage("young", b"b", batch=1)
    await parts.clock.advance(1)
    await parts.staging.tend()
    with pytest.raises(RequestRejected, match="there is no stage 'old'"):
        await parts.commit({"old": 1})
    parts = reborn(parts, tmp_path)
    with pytest.raises(RequestRejected, match="there is no stage 'old'"):
        await parts.commit({"old": 1})
    await parts.commit({"young": 1}, batch=1)
    assert parts.bodies() == [b"b"]


async def test_time_in_which_no_broker_runs_makes_nothing_older(
    parts: StagingParts, tmp_path: Path
) -> None:
    await parts.stage("one", b"a")
    await parts.clock.advance(EXPIRY_MS - 1)
    parts.abandon()
    await parts.clock.advance(100 * EXPIRY_MS)
    parts = StagingParts(tmp_path, parts.clock)
    await parts.staging.tend()
    await parts.commit({"one": 1})
    assert parts.bodies() == [b"a"]


@pytest.mark.parametrize("batch", [0, 1], ids=["same batch", "another batch"])
async def test_a_name_that_is_used_again_after_it_expired_means_the_new_parts(
    parts: StagingParts, tmp_path: Path, batch: int
) -> None:
    await parts.stage("one", b"old")
    await parts.stage("one", b"older", part=1)
    await parts.clock.advance(EXPIRY_MS + 1)
    await parts.staging.tend()
    await parts.stage("one", b"second", part=1, batch=batch)
    parts = reborn(parts, tmp_path)
    with pytest.raises(RequestRejected, match="has 1 parts here, not 2"):
        await parts.commit({"one": 2}, batch=batch)
    await parts.stage("one", b"first", batch=batch)
    parts = reborn(parts, tmp_path)
    await parts.commit({"one": 2}, batch=batch)
    assert parts.bodies() == [b"first", b"second"]


async def test_what_is_committed_shows_also_when_settings_are_stricter_by_then(
    parts: StagingParts, tmp_path: Path
) -> None:
    await parts.stage("one", b"x" * 3000)
    await parts.stage("one", b"later", part=1, properties=b"TIMER_DELAY_SEC\x01100\x02")
    parts.staging._record(("app", 0), StageList(stages={"one": 2}))
    parts = reborn(parts, tmp_path, config={"max_message_bytes": 1024}, timer_max_delay_ms=1000)
    with pytest.raises(RequestRejected, match="more than 1024"):
        await parts.stage("two", b"x" * 3000, batch=1)
    await parts.staging.tend()
    assert parts.bodies() == [b"x" * 3000]
    assert len(parts.stored(TIMER_TOPIC)) == 1
    assert not parts.staging.book.commits


async def test_a_part_is_not_let_go_of_before_its_message_is_on_the_disk(tmp_path: Path) -> None:
    parts = StagingParts(tmp_path, ManualClock(), segment_bytes=8192)
    await parts.stage("one", b"a")
    parts.store.append([[put("u", b"x" * 6000)]])
    parts.store.append([[put("u", b"x" * 6000)]])
    parts.store.flush()
    await parts.commit({"one": 1})
    await parts.staging.tend()
    held = parts.pins.lowest()
    assert held is not None
    assert held.offset == 0, "the commit may be taken back, and then the part is needed"
    parts.store.flush()
    await parts.staging.tend()
    assert held.offset > 0


# Several brokers


async def test_what_is_prepared_is_kept_until_it_is_known_what_became_of_it(
    parts: StagingParts, tmp_path: Path
) -> None:
    await parts.stage("one", b"a")
    await parts.stage("other", b"b", batch=1)
    assert not await parts.prepare({"one": 1})
    assert not await parts.prepare({"one": 1})
    for _ in range(2):
        await parts.clock.advance(10 * EXPIRY_MS)
        await parts.staging.tend()
        with pytest.raises(RequestRejected, match="no stage 'other'"):
            await parts.commit({"other": 1}, batch=1)
        parts = reborn(parts, tmp_path)
    await parts.commit({"one": 1})
    assert parts.bodies() == [b"a"]
    assert await parts.prepare({"one": 1})
    assert not len(parts.staging.book.prepared)


async def test_only_what_is_whole_is_prepared(parts: StagingParts) -> None:
    await parts.stage("one", b"a")
    with pytest.raises(
        RequestRejected, match=r"is not prepared: .* 1 parts here, not 2; stage all"
    ):
        await parts.prepare({"one": 2})
    with pytest.raises(RequestRejected, match="no stage 'two'"):
        await parts.prepare({"two": 1})


async def test_no_commit_goes_by_what_another_broker_has_let_go_of(
    parts: StagingParts, tmp_path: Path
) -> None:
    assert await parts.staging.outcome(("app", 0), ["t1"]) == (False, None)
    for _ in range(2):
        with pytest.raises(RequestRejected, match="let go of its share; stage all of it again"):
            await parts.commit({}, plan="p", token="t1")
        parts = reborn(parts, tmp_path)
    await parts.commit({}, plan="p", token="t2")
    assert await parts.staging.outcome(("app", 0), ["t2"]) == (True, "p")
    assert await parts.staging.outcome(("app", 1), []) == (False, None)


async def test_plans_are_kept_until_each_share_shows(parts: StagingParts, tmp_path: Path) -> None:
    b, c = Share(stages={"s": 1}), Share(stages={"s": 2})
    for batch in (5, 4):
        plan = write_plan({"b": b, "c": c})
        await parts.commit({}, batch=batch, plan=plan, content="1 2 3 - t")
    parts.staging.settle(("app", 4), "b")
    parts.staging.settle(("app", 4), "nobody")
    parts.staging.settle(("app", 5), None)
    parts.staging.settle(("app", 6), None)
    for _ in range(2):
        told = await parts.commit({}, batch=4)
        assert read_plan(told.outcome.plan or "") == {"c": c}
        assert told.outcome.content == "1 2 3 - t"
        assert (await parts.commit({}, batch=5)).outcome.plan is None
        parts = reborn(parts, tmp_path)
    parts.staging.settle(("app", 4), "c")
    assert (await parts.commit({}, batch=4)).outcome.plan is None


async def test_what_is_let_go_stays_so_unless_it_was_prepared_anew(
    parts: StagingParts, tmp_path: Path
) -> None:
    await parts.stage("one", b"a")
    await parts.prepare({"one": 1}, token="t1")
    await parts.prepare({"one": 1}, token="t2")
    parts.staging.let_go(("app", 0), ["t1"])
    assert len(parts.staging.book.prepared) == 1
    parts.staging.let_go(("app", 0), ["t1", "t2"])
    for _ in range(2):
        assert not len(parts.staging.book.prepared)
        with pytest.raises(RequestRejected, match="no stage 'one'"):
            await parts.commit({"one": 1})
        parts = reborn(parts, tmp_path)


async def test_what_is_staged_is_bounded(tmp_path: Path) -> None:
    parts = StagingParts(tmp_path, ManualClock(), max_staged_bytes=3000)
    await parts.stage("one", b"x" * 1000)
    await parts.stage("one", b"x" * 1000, part=1)
    with pytest.raises(RequestRejected, match="3000 are the most") as caught:
        await parts.stage("one", b"x" * 1000, part=2)
    assert caught.value.code == ResponseCode.SYSTEM_BUSY
    await parts.commit({"one": 2})
    await parts.stage("two", b"x" * 1000, batch=1)


async def test_what_is_needed_of_the_log_is_held_and_the_ledger_moves_on(tmp_path: Path) -> None:
    parts = StagingParts(tmp_path, ManualClock(), segment_bytes=8192)
    assert parts.pins.lowest() is None
    await parts.stage("one", b"a")
    pin = parts.pins.lowest()
    assert pin is not None
    assert (pin.owner, pin.offset) == ("staged sends", parts.stored(STAGING_TOPIC, 0)[0].log_offset)
    await parts.commit({"one": 1})
    for _ in range(20):
        parts.store.append([[put("u", b"x" * 1000)]])
    await parts.staging.tend()
    held = parts.pins.lowest()
    assert held is not None
    assert held.offset == pin.offset, "a power cut may take the summary back"
    parts.store.flush()
    await parts.staging.tend()
    assert held.offset > 8192, "a summary has come behind the rest"
    parts.visibility.dispatch()
    parts.store.flush()
    parts.store.delete_before(held.offset)
    assert parts.store.first_offset > 0
    parts = reborn(parts, tmp_path, segment_bytes=8192)
    assert (await parts.commit({"one": 1})).duplicate
    assert parts.bodies() == []  # its segment is gone, and it is not shown again


async def test_a_summary_knows_of_commits_that_are_open(tmp_path: Path) -> None:
    parts = StagingParts(tmp_path, ManualClock(), segment_bytes=8192)
    await parts.stage("one", b"a")
    await parts.stage("one", b"b", part=1)
    parts.staging._record(("app", 0), StageList(stages={"one": 2}))
    commit = parts.staging.book.commits["app", 0]
    parts.staging._move(commit, *parts.staging._next(commit))
    parts.store.append([[put("u", b"x" * 7000)]])
    parts.staging._summarize()
    parts = reborn(parts, tmp_path, segment_bytes=8192)
    assert parts.bodies() == [b"a"]
    await parts.staging.tend()
    assert parts.bodies() == [b"a", b"b"]
    assert (await parts.commit({"one": 2})).duplicate


async def test_an_application_that_commits_no_more_is_forgotten(tmp_path: Path) -> None:
    parts = StagingParts(tmp_path, ManualClock(), segment_bytes=8192)
    await parts.commit({}, app="gone")
    await parts.clock.advance(LEDGER_MS + 1)
    await parts.commit({}, app="here")
    parts.store.append([[put("u", b"x" * 7000)]])
    await parts.staging.tend()
    parts = reborn(parts, tmp_path, segment_bytes=8192)
    assert (await parts.commit({}, app="here")).duplicate
    assert not (await parts.commit({}, app="gone")).duplicate


async def test_with_syncs_a_part_is_answered_when_it_is_synced(tmp_path: Path) -> None:
    parts = StagingParts(tmp_path, ManualClock(), flush=FlushMode.SYNC, flush_timeout_ms=1000)
    staging = asyncio.create_task(parts.stage("one", b"a"))
    while not staging.done():
        await parts.clock.advance(100)
    with pytest.raises(RequestRejected, match="not synced in time"):
        await staging
    parts.store.flush()
    assert not await parts.stage("one", b"a")
    committing = asyncio.create_task(parts.commit({"one": 1}))
    while not committing.done():
        await asyncio.sleep(0)
        parts.store.flush()
    await committing
    assert parts.bodies() == [b"a"]


def delete(parts: StagingParts, topic: str = "t") -> None:
    """Delete a topic as its handler does."""
    parts.tables.topics.delete(topic, parts.clock.now_ms(), parts.store.positions.written)
    for queue_id in range(4):
        parts.store.derived.queues.delete(topic, queue_id)
    parts.tables.save()


async def test_what_was_staged_for_a_topic_that_was_deleted_is_not_committed(
    parts: StagingParts, tmp_path: Path
) -> None:
    await parts.stage("one", b"a")
    delete(parts)
    with pytest.raises(RequestRejected, match="topic 't' was deleted after some was staged"):
        await parts.commit({"one": 1})
    with pytest.raises(RequestRejected, match="is not prepared: topic 't' was deleted"):
        await parts.prepare({"one": 1})
    assert (parts.tables.topics.get("t"), parts.bodies()) == (None, [])
    await parts.stage("one", b"b", part=1)  # makes it anew
    parts.tables.save()
    parts = reborn(parts, tmp_path)
    with pytest.raises(RequestRejected, match="topic 't' was deleted"):
        await parts.commit({"one": 2})
    assert parts.bodies() == []
    await parts.stage("again", b"a")
    await parts.commit({"again": 1})
    assert parts.bodies() == [b"a"]


async def test_what_was_decided_goes_with_a_topic_that_is_deleted_before_it_shows(
    parts: StagingParts, tmp_path: Path
) -> None:
    await parts.stage("one", b"a")
    await parts.stage("one", b"b", part=1, topic="other")
    await parts.prepare({"one": 2})
    delete(parts)
    parts = reborn(parts, tmp_path)
    await parts.commit({"one": 2})
    assert (parts.bodies(), parts.bodies("other")) == ([], [b"b"])
    assert not parts.staging.book.commits
    assert parts.tables.topics.get("t") is None


async def test_a_topic_that_nobody_deleted_is_made_known_before_a_commit_shows(
    parts: StagingParts, tmp_path: Path
) -> None:
    await parts.stage("one", b"a", topic="new", queue_id=2)
    parts = reborn(parts, tmp_path)  # its table was not saved
    assert parts.tables.topics.get("new") is None
    await parts.commit({"one": 1})
    found = parts.tables.topics.get("new")
    assert (parts.bodies("new"), found and found.read_queues) == ([b"a"], 3)


async def test_a_writer_that_prepares_for_ever_is_refused_in_the_end(
    parts: StagingParts, tmp_path: Path
) -> None:
    parts.staging.book.prepared = PreparedTable(max_names=2)
    await parts.stage("one", b"a")
    for token in ("t1", "t2", "t2"):
        await parts.prepare({"one": 1}, token=token)
    with pytest.raises(RequestRejected, match="2 stages are prepared") as caught:
        await parts.prepare({"one": 1}, token="t3")
    assert caught.value.code == ResponseCode.SYSTEM_BUSY
    parts = reborn(parts, tmp_path)
    await parts.commit({"one": 1})
    assert parts.bodies() == [b"a"]
