"""A broker that is killed at any step of a pop knows afterwards what it told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.pop_parts import INVISIBLE_MS, REVIVE, PopParts, bodies, seen
from tests.broker.support.sending_parts import HOST, put

from rocketpipe.broker.features.popping import revive_log
from rocketpipe.broker.features.popping.check_points import ack_of, check_point, put_ack, put_point
from rocketpipe.broker.features.popping.pop_offsets import REVIVE_GROUP
from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.protocol.requests.popping import FROM_MAX
from rocketpipe.store.config import FlushMode
from rocketpipe.store.errors import StoreFull
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.clock import ManualClock

Open = Callable[..., PopParts]
REVIVE_QUEUES = range(8)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Open the parts, again after the last ones were abandoned, on the same directory."""
    clock = ManualClock()
    last: list[PopParts] = []

    def open_parts(**changes: Any) -> PopParts:
        if last:
            last[-1].abandon()
        last.append(PopParts(tmp_path, clock, **changes))
        return last[-1]

    yield open_parts
    last[-1].abandon()


@pytest.mark.parametrize("save", [False, True], ids=["tables lost", "tables saved"])
async def test_killed_after_a_pop_its_messages_are_hidden_and_come_again_once(
    opened: Open, *, save: bool
) -> None:
    parts = opened()
    await parts.send(b"0", b"1")
    await parts.pop(count=1)
    if save:
        parts.store.flush()
        await parts.revive_log.tend()
        parts.tables.save()
    parts = opened()
    assert bodies(await parts.pop()) == [b"1"]
    await parts.pass_time(INVISIBLE_MS)
    assert bodies(await parts.pop()) == [b"0", b"1"]


@pytest.mark.parametrize("save", [False, True], ids=["tables lost", "tables saved"])
async def test_killed_after_an_acknowledgement_the_message_never_comes_again(
    opened: Open, *, save: bool
) -> None:
    parts = opened()
    await parts.send(b"0", b"1")
    got = await parts.pop()
    await parts.ack(got[0])
    if save:
        parts.store.flush()
        await parts.revive_log.tend()
        parts.tables.save()
    parts = opened()
    assert await parts.pop() == []
    await parts.pass_time(INVISIBLE_MS)
    assert bodies(await parts.pop()) == [got[1].body]


async def test_killed_a_group_that_begins_at_the_end_misses_nothing_behind_it(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first(self: MessageStore, topic: str, queue_id: int) -> QueueOffset:
        return QueueOffset(1 if topic == "t" and queue_id == 0 else 0)

    parts = opened()
    await parts.send(b"gone")
    monkeypatch.setattr(MessageStore, "min_offset", first)  # as if retention had been there
    assert await parts.pop(init_mode=FROM_MAX) == []
    parts = opened()
    await parts.send(b"1", b"2", b"3")
    assert bodies(await parts.pop(init_mode=FROM_MAX)) == [b"1", b"2", b"3"]


async def test_a_receipt_outlives_a_kill(opened: Open) -> None:
    parts = opened()
    await parts.send(b"0")
    (got,) = await parts.pop()
    parts = opened()
    await parts.ack(got)
    await parts.pass_time(INVISIBLE_MS)
    assert await parts.pop() == []


async def test_killed_after_a_change_the_new_time_counts(opened: Open) -> None:
    parts = opened()
    await parts.send(b"0")
    (got,) = await parts.pop()
    await parts.clock.advance(1000)
    await parts.acks.hide("t", "g", got.handle, got.offset, 2 * INVISIBLE_MS)
    parts = opened()
    await parts.pass_time(INVISIBLE_MS)
    assert await parts.pop() == []
    await parts.pass_time(INVISIBLE_MS)
    assert bodies(await parts.pop()) == [b"0"]


async def test_killed_after_it_was_shown_again_it_is_not_shown_twice(opened: Open) -> None:
    parts = opened()
    await parts.send(b"0")
    await parts.pop()
    await parts.pass_time(INVISIBLE_MS)
    parts = opened()
    await parts.pass_time(INVISIBLE_MS)
    (again,) = await parts.pop()
    assert again.tries == 1
    await parts.ack(again)
    parts = opened()
    await parts.pass_time(INVISIBLE_MS)
    assert await parts.pop() == []
    assert len(parts.stored("%RETRY%g+t")) == 1


async def test_killed_after_a_change_in_order_the_new_time_counts(opened: Open) -> None:
    parts = opened()
    await parts.send(b"0", b"1")
    got = seen(await parts.popped(ordered=True, count=2), "t", "g")
    await parts.ack(got[1])
    await parts.acks.hide("t", "g", got[0].handle, got[0].offset, 3 * INVISIBLE_MS)
    parts = opened()
    await parts.pass_time(2 * INVISIBLE_MS)
    parts = opened()  # later than it would have shown by itself
    await parts.pass_time(INVISIBLE_MS - 1)
    assert (await parts.popped(ordered=True)).count == 0
    await parts.pass_time(1)
    assert bodies(seen(await parts.popped(ordered=True), "t", "g")) == [b"0", b"1"]


async def test_a_change_in_order_that_cannot_be_noted_is_refused_and_changes_nothing(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = opened()
    await parts.send(b"0")
    (got,) = seen(await parts.popped(ordered=True), "t", "g")
    with monkeypatch.context() as full:

        def refuse(groups: object) -> None:
            raise StoreFull(Path("log"), 1, "no room")

        full.setattr(parts.store, "append", refuse)
        with pytest.raises(RequestRejected):
            await parts.acks.hide("t", "g", got.handle, got.offset, 2 * INVISIBLE_MS)
    await parts.pass_time(INVISIBLE_MS)
    assert bodies(seen(await parts.popped(ordered=True), "t", "g")) == [b"0"]


@pytest.mark.parametrize("ordered", [False, True], ids=["any order", "in order"])
async def test_a_clock_set_back_while_the_broker_was_down_hides_nothing_for_longer(
    tmp_path: Path, *, ordered: bool
) -> None:
    ahead = PopParts(tmp_path, ManualClock(1_700_000_000_000 + 3_600_000))
    await ahead.send(b"0")
    await ahead.popped(ordered=ordered)
    ahead.abandon()
    parts = PopParts(tmp_path, ManualClock())
    try:
        await parts.pass_time(INVISIBLE_MS - 1)
        assert (await parts.popped(ordered=ordered)).count == 0
        await parts.pass_time(1)
        assert bodies(seen(await parts.popped(ordered=ordered), "t", "g")) == [b"0"]
    finally:
        parts.abandon()


async def test_killed_in_order_the_block_and_the_acknowledgements_are_known(opened: Open) -> None:
    parts = opened()
    await parts.send(b"0", b"1", b"2", b"3")
    got = seen(await parts.popped(ordered=True, count=3), "t", "g")
    await parts.ack(got[0])
    await parts.ack(got[2])
    parts = opened()
    assert (await parts.popped(ordered=True)).count == 0
    assert parts.revive_log.places.next("g", "t", 0) == 1
    await parts.ack(got[1])
    parts = opened()
    assert bodies(seen(await parts.popped(ordered=True), "t", "g")) == [b"3"]


async def test_an_offset_that_was_set_back_and_saved_stays_so_after_a_kill(opened: Open) -> None:
    parts = opened()
    await parts.send(b"0", b"1")
    got = await parts.pop()
    parts.store.flush()
    await parts.revive_log.tend()
    parts.tables.offsets.commit("g", "t", 0, QueueOffset(0))
    parts.tables.save()
    parts = opened()
    assert bodies(await parts.pop()) == bodies(got)


async def test_nothing_is_committed_that_a_power_cut_could_take(opened: Open) -> None:
    parts = opened(flush=FlushMode.ASYNC)
    await parts.send(b"0")
    before = parts.tables.offsets.committed("g", "t", 0)
    await parts.pop()
    parts.revive_log.settle()
    assert parts.tables.offsets.committed("g", "t", 0) in (before, 0)
    assert parts.revive_log.places.next("g", "t", 0) == 1
    parts.store.flush()
    parts.revive_log.settle()
    assert parts.tables.offsets.committed("g", "t", 0) == 1


async def test_notes_that_are_done_with_are_not_read_again(opened: Open) -> None:
    parts = opened()
    for number in range(20):
        await parts.send(b"%d" % number)
        for got in await parts.pop():
            await parts.ack(got)
    await parts.revive_log.tend()
    parts.store.flush()
    parts.revive_log.settle()
    for queue_id in REVIVE_QUEUES:
        end = parts.store.max_offset(REVIVE, queue_id)
        done = parts.tables.offsets.committed(REVIVE_GROUP, REVIVE, queue_id)
        assert (done is None and end == 0) or done == end - 1


async def test_a_pop_that_lasts_long_keeps_few_notes_from_being_done_with(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revive_log, "MAX_SPAN", 4)
    parts = opened()
    await parts.send(b"long", b"half")
    slow = await parts.pop(invisible_ms=10 * INVISIBLE_MS)
    await parts.ack(slow[1])
    for number in range(100):
        await parts.send(b"%d" % number)
        for got in await parts.pop():
            await parts.ack(got)
        await parts.revive_log.tend()
    parts.store.flush()
    parts.revive_log.settle()
    parts.tables.save()
    for queue_id in REVIVE_QUEUES:
        done = parts.tables.offsets.committed(REVIVE_GROUP, REVIVE, queue_id)
        assert done is not None
        assert parts.store.max_offset(REVIVE, queue_id) - done <= 7
    parts = opened()
    await parts.pass_time(10 * INVISIBLE_MS)
    assert bodies(await parts.pop()) == [slow[0].body]


def timed(note: Put) -> Put:
    """A note as the timer of RocketMQ's broker delivers it."""
    return note._replace(properties=note.properties + b"TIMER_DEQUEUE_MS\x011\x02")


async def test_what_rocketmqs_broker_had_in_its_timer_is_taken_over(opened: Open) -> None:
    parts = opened()
    await parts.send(b"0", b"1")
    parts.tables.offsets.commit("g", "t", 0, QueueOffset(2))
    point = check_point(
        topic="t",
        group="g",
        queue_id=0,
        start=QueueOffset(0),
        offsets=[QueueOffset(0), QueueOffset(1)],
        pop_ms=parts.clock.now_ms() - 59_000,
        invisible_ms=60_000,
        broker="broker-a",
    )
    now_ms = parts.clock.now_ms()
    await parts.intake.put([timed(put_point(point, REVIVE, 4, HOST, now_ms))])
    parts.revive_log.arrived(REVIVE, 4, QueueOffset(0))
    await parts.pass_time(2000)
    ack = ack_of(point, [QueueOffset(1)])
    await parts.intake.put([timed(put_ack(ack, point.due_ms, REVIVE, 4, HOST, now_ms))])
    parts.revive_log.arrived(REVIVE, 4, QueueOffset(1))
    await parts.revive_log.tend()
    await parts.pass_time(revive_log.TIMED_GRACE_MS)
    assert bodies(await parts.pop()) == [b"0"]


async def test_what_is_no_note_is_passed_over(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    parts = opened()
    junk = put(REVIVE, b"{", properties=b"TAGS\x01ck\x02", queue_id=2)
    other = put(REVIVE, b"hello", properties=b"", queue_id=2)
    await parts.intake.put([junk, other])
    await parts.send(b"0")
    parts = opened()
    assert "cannot be read" in caplog.text
    assert bodies(await parts.pop()) == [b"0"]


async def test_acknowledgements_wait_for_the_sync_where_that_is_promised(opened: Open) -> None:
    parts = opened(flush=FlushMode.SYNC)
    sending = asyncio.create_task(parts.send(b"0"))
    await asyncio.sleep(0)
    parts.store.flush()
    await sending
    parts.visibility.dispatch()
    (got,) = await parts.pop()
    acking = asyncio.create_task(parts.ack(got))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not acking.done()
    parts.store.flush()
    await acking
    assert len(parts.revive_log.flights) == 0


# A pop that fails in the middle


class Broken(Exception):
    """What nobody expects of a part."""


def breaking(parts: PopParts, monkeypatch: pytest.MonkeyPatch, *, shown: bool) -> None:
    """Have the next write fail behind the append, before or after it is shown."""
    settled = parts.visibility.settled

    async def broken(end: LogOffset, *, wait: bool) -> bool:
        monkeypatch.setattr(parts.visibility, "settled", settled)
        if shown:
            await settled(end, wait=wait)
        raise Broken

    monkeypatch.setattr(parts.visibility, "settled", broken)


@pytest.mark.parametrize("shown", [False, True], ids=["not shown", "shown"])
@pytest.mark.parametrize("killed", [False, True], ids=["runs on", "killed"])
async def test_a_pop_that_fails_behind_its_check_point_hides_its_messages_once(
    opened: Open, monkeypatch: pytest.MonkeyPatch, *, shown: bool, killed: bool
) -> None:
    parts = opened()
    await parts.send(b"0", b"1")
    breaking(parts, monkeypatch, shown=shown)
    with pytest.raises(Broken):
        await parts.pop(count=1, queue_id=0)
    if killed:
        parts = opened()
    elif not shown:
        assert await parts.pop(queue_id=0) == [], "nobody knows whether it is popped"
        parts.visibility.dispatch()
    (other,) = await parts.pop(queue_id=0)
    assert other.body == b"1"
    await parts.ack(other)
    await parts.pass_time(INVISIBLE_MS)
    (again,) = await parts.pop()
    assert again.body == b"0"
    await parts.ack(again)
    for _ in range(3):
        await parts.pass_time(INVISIBLE_MS)
        assert await parts.pop() == [], "it was acknowledged"


async def test_what_nobody_pops_again_is_cleared_up_all_the_same(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = opened()
    await parts.send(b"0")
    breaking(parts, monkeypatch, shown=True)
    with pytest.raises(Broken):
        await parts.pop(queue_id=0)
    parts.revive_log.arrived(REVIVE, 1, QueueOffset(0))
    await parts.revive_log.tend()
    await parts.pass_time(INVISIBLE_MS)
    (again,) = await parts.pop()
    assert again.tries == 1
    await parts.ack(again)
    await parts.pass_time(INVISIBLE_MS)
    assert await parts.pop() == []


async def test_a_pop_that_was_not_noted_can_be_repeated_at_once(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = opened()
    await parts.send(b"0")
    append = parts.store.append

    def full(groups: Any) -> Any:
        monkeypatch.setattr(parts.store, "append", append)
        raise StoreFull(Path("log"), 1, "no room")

    parts.tables.groups.ensure("h", parts.clock.now_ms())
    for group, ordered in (("g", False), ("h", True)):
        monkeypatch.setattr(parts.store, "append", full)
        with pytest.raises(RequestRejected, match="no room"):
            await parts.pop(queue_id=0, group=group, ordered=ordered)
        got = await parts.pop(queue_id=0, group=group, ordered=ordered)
        assert bodies(got) == [b"0"]


async def test_a_pop_succeeds_when_only_showing_its_check_point_fails(
    opened: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    parts = opened()
    await parts.send(b"0")

    def stuck() -> int:
        raise AssertionError("an invariant does not hold")

    with monkeypatch.context() as broken:
        broken.setattr(parts.store, "dispatch", stuck)
        (got,) = await parts.pop()
        await parts.ack(got)
    assert caplog.text.count("cannot be shown") == 1
    parts.visibility.dispatch()
    await parts.pass_time(INVISIBLE_MS)
    assert await parts.pop() == []
