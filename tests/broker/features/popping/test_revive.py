"""The whole schedule of what was not acknowledged, on a turned clock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.broker.support.pop_parts import INVISIBLE_MS, REVIVE, PopParts, bodies
from tests.broker.support.sending_parts import HOST
from tests.broker.support.stepped_clock import HOUR_MS, SteppedClock

from rocketpipe.broker.features.popping.check_points import (
    CheckPoint,
    ack_of,
    check_point,
    put_ack,
)
from rocketpipe.broker.features.popping.in_flight import Flight
from rocketpipe.broker.features.popping.revive import BACK_OFF_MS, TICK_MS, UNKNOWN_MS
from rocketpipe.broker.intake.intake import Stored
from rocketpipe.errors import RequestRejected
from rocketpipe.model import properties
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.record.codec import RecordView
from rocketpipe.store.errors import StoreFull
from rocketpipe.store.log.puts import Put
from rocketpipe.testing.clock import ManualClock


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[PopParts]:
    made = PopParts(tmp_path, ManualClock())
    yield made
    made.abandon()


async def test_it_comes_again_and_again_and_becomes_a_dead_letter_in_the_end(
    parts: PopParts,
) -> None:
    group = GroupSettings(name="g", max_retries=3)
    parts.tables.groups.update(group, parts.clock.now_ms())
    await parts.send(b"poison", properties=b"UNIQ_KEY\x01K\x02TAGS\x01A\x02")
    first_ms = parts.clock.now_ms()
    tries = []
    for _ in range(4):
        (got,) = await parts.pop()
        tries.append(got.tries)
        await parts.pass_time(INVISIBLE_MS)
    assert tries == [0, 1, 2, 3]
    assert await parts.pop() == []
    (dead,) = parts.stored("%DLQ%g")
    assert dead.body == b"poison"
    assert dead.properties[properties.DLQ_ORIGIN_TOPIC] == "t"
    reason = dead.properties[properties.DLQ_REASON]
    assert reason == "attempts not acknowledged: 4 of 4"
    assert dead.properties[properties.FIRST_POP_TIME] == str(first_ms)
    assert dead.properties["UNIQ_KEY"] == "K"
    assert dead.tags == "A"


@pytest.mark.parametrize("step_ms", [-HOUR_MS, -50, 50, HOUR_MS, 24 * HOUR_MS])
async def test_a_wall_clock_that_is_set_shows_nothing_early_and_nothing_late(
    tmp_path: Path, step_ms: int
) -> None:
    clock = SteppedClock()
    parts = PopParts(tmp_path, clock)
    try:
        await parts.send(b"before", b"after")
        await parts.pop(count=1)
        clock.step(step_ms)
        await parts.pass_time(INVISIBLE_MS // 2)
        await parts.pop(count=1)
        await parts.pass_time(INVISIBLE_MS // 2 - TICK_MS)
        assert parts.stored("%RETRY%g+t") == []
        await parts.pass_time(2 * TICK_MS)
        assert bodies(parts.stored("%RETRY%g+t")) == [b"before"]
        await parts.pass_time(INVISIBLE_MS // 2)
        assert bodies(parts.stored("%RETRY%g+t")) == [b"after", b"before"]
    finally:
        parts.abandon()


async def test_a_clock_that_is_set_again_and_again_is_told_of_once_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SteppedClock()
    parts = PopParts(tmp_path, clock)
    try:
        for number in range(20):
            clock.step(HOUR_MS if number % 2 else -HOUR_MS)
            await parts.revivals.revive_due()
        assert caplog.text.count("the machine's clock was set") == 1
        await clock.advance(60_000)
        clock.step(HOUR_MS)
        await parts.revivals.revive_due()
        assert caplog.text.count("the machine's clock was set") == 2
    finally:
        parts.abandon()


async def test_each_falls_due_at_its_own_time(parts: PopParts) -> None:
    await parts.send(*(b"%d" % number for number in range(4)))
    for invisible_ms in (40_000, 10_000, 30_000, 20_000):
        await parts.pop(count=1, invisible_ms=invisible_ms)
    shown = []
    for _ in range(4):
        await parts.pass_time(10_000)
        shown += [each.body for each in parts.stored("%RETRY%g+t")[len(shown) :]]
    assert shown == [b"1", b"3", b"2", b"0"]


async def test_what_nobody_can_want_any_more_does_not_come_again(parts: PopParts) -> None:
    await parts.send(b"0")
    await parts.pop()
    parts.tables.groups.delete("g", parts.clock.now_ms())
    await parts.pass_time(TICK_MS)
    assert len(parts.revive_log.flights) == 0
    parts.tables.groups.ensure("g", parts.clock.now_ms())
    await parts.pass_time(INVISIBLE_MS)
    assert parts.stored("%RETRY%g+t") == []


async def test_a_deleted_group_is_done_with_though_the_disk_was_full_at_first(
    parts: PopParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    await parts.send(b"0")
    await parts.pop()
    parts.tables.groups.delete("g", parts.clock.now_ms())
    with monkeypatch.context() as full:

        def refuse(groups: object) -> None:
            raise StoreFull(Path("log"), 1, "no room")

        full.setattr(parts.store, "append", refuse)
        with pytest.raises(RequestRejected):
            await parts.revivals.revive_due()
    assert len(parts.revive_log.flights) == 1
    await parts.pass_time(TICK_MS)
    assert len(parts.revive_log.flights) == 0


async def test_a_group_that_is_made_anew_while_the_disk_is_full_keeps_what_it_pops_then(
    parts: PopParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    await parts.send(b"0", b"1")
    await parts.pop(count=1)
    parts.tables.groups.delete("g", parts.clock.now_ms())
    with monkeypatch.context() as full:

        def refuse(groups: object) -> None:
            raise StoreFull(Path("log"), 1, "no room")

        full.setattr(parts.store, "append", refuse)
        with pytest.raises(RequestRejected):
            await parts.revivals.revive_due()
    parts.tables.groups.ensure("g", parts.clock.now_ms())
    assert bodies(await parts.pop(count=1)) == [b"1"]
    await parts.pass_time(INVISIBLE_MS)
    assert b"1" in bodies(parts.stored("%RETRY%g+t"))


async def test_one_that_cannot_be_dealt_with_keeps_no_other_and_is_tried_again(
    parts: PopParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    await parts.send(b"0", b"1")
    for _ in range(2):
        await parts.pop(count=1)
    with monkeypatch.context() as broken:
        message = parts.revivals._message

        def failing(flight: Flight, offset: QueueOffset) -> RecordView | None:
            if offset == 0:
                raise ValueError("not to be read")
            return message(flight, offset)

        broken.setattr(parts.revivals, "_message", failing)
        await parts.pass_time(INVISIBLE_MS)
        assert bodies(parts.stored("%RETRY%g+t")) == [b"1"]
    await parts.pass_time(BACK_OFF_MS)
    assert bodies(parts.stored("%RETRY%g+t")) == [b"0", b"1"]


async def test_what_an_unknown_group_popped_waits_until_it_is_known(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = PopParts(tmp_path, ManualClock())
    try:
        await parts.send(b"0")
        await parts.pop(group="new")  # so that nobody made it durable
        parts.abandon()
        parts = PopParts(tmp_path, ManualClock())
        for _ in range(3):
            await parts.pass_time(INVISIBLE_MS)
        assert len(parts.revive_log.flights) == 1
        assert "group new is not known" in caplog.text
        parts.tables.groups.ensure("new", parts.clock.now_ms())
        await parts.pass_time(UNKNOWN_MS)
        assert bodies(await parts.pop(group="new")) == [b"0"]
    finally:
        parts.abandon()


async def test_what_an_unknown_group_popped_is_done_with_when_its_messages_are_gone(
    parts: PopParts,
) -> None:
    await parts.send(b"0")
    await parts.pop(group="new")
    parts.store.derived.queues.delete("t", 0)
    await parts.pass_time(INVISIBLE_MS)
    assert len(parts.revive_log.flights) == 0


async def test_a_full_disk_puts_it_off(parts: PopParts, monkeypatch: pytest.MonkeyPatch) -> None:
    await parts.send(b"0")
    await parts.pop()
    with monkeypatch.context() as full:

        def refuse(groups: object) -> None:
            raise StoreFull(Path("log"), 1, "no room")

        full.setattr(parts.store, "append", refuse)
        await parts.clock.advance(INVISIBLE_MS)
        await parts.revivals.revive_due()
    assert len(parts.revive_log.flights) == 1
    await parts.pass_time(BACK_OFF_MS)
    assert bodies(await parts.pop()) == [b"0"]


async def test_a_message_whose_properties_are_full_comes_again_all_the_same(
    parts: PopParts,
) -> None:
    room = 32_767 - 20 - len("k\x01\x02")
    await parts.send(b"0", properties=b"k\x01" + b"x" * room + b"\x02")
    await parts.pop()
    await parts.pass_time(INVISIBLE_MS)
    assert bodies(await parts.pop()) == [b"0"]


async def test_the_loop_shows_it_again_by_itself(parts: PopParts) -> None:
    await parts.send(b"0")
    await parts.pop()
    loop = asyncio.create_task(parts.revivals.keep_reviving())
    await parts.clock.advance(INVISIBLE_MS)
    while not parts.stored("%RETRY%g+t"):
        await parts.clock.advance(TICK_MS)
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)
    assert [each.body for each in parts.stored("%RETRY%g+t")] == [b"0"]


async def test_what_was_hidden_anew_and_shown_before_that_was_durable_is_shown_once(
    parts: PopParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    await parts.send(b"once")
    (got,) = await parts.pop()
    take = parts.intake.take

    async def slowly(puts: Sequence[Put], *, wait: bool, together: bool = True) -> Stored:
        stored = await take(puts, wait=wait, together=together)
        if wait:  # the disk takes its time: the note is read from the log, and falls due
            monkeypatch.setattr(parts.intake, "take", take)
            parts.store.dispatch()
            for queue_id in range(8):
                parts.revive_log.arrived(REVIVE, queue_id, QueueOffset(1 << 40))
            await parts.revive_log.tend()
            await parts.pass_time(1000)
        return stored

    monkeypatch.setattr(parts.intake, "take", slowly)
    await parts.acks.hide(got.topic, "g", got.handle, got.offset, 500)
    await parts.pass_time(INVISIBLE_MS)
    assert bodies(parts.stored("%RETRY%g+t")) == [b"once"]


async def test_what_shows_again_is_not_read_back_while_that_is_not_confirmed(
    parts: PopParts,
) -> None:
    positions = parts.store.positions
    await parts.send(b"0")
    now_ms = parts.clock.now_ms()
    # Somebody's note, whom nobody waits for any more: it is only read.
    others = ack_of(_point(now_ms), [QueueOffset(7)])
    await parts.intake.put([put_ack(others, now_ms, REVIVE, 1, HOST, now_ms)])
    await parts.pop()
    positions.begin_acknowledged(positions.written)
    parts.visibility.dispatch()
    await parts.clock.advance(INVISIBLE_MS)
    await parts.revivals.revive_due()
    parts.revive_log.arrived(REVIVE, 1, QueueOffset(1))
    await parts.revive_log.tend()
    await parts.revivals.revive_due()
    positions.acknowledged = positions.written
    parts.visibility.dispatch()
    assert bodies(await parts.pop()) == [b"0"]


def _point(now_ms: int) -> CheckPoint:
    return check_point(
        topic="t",
        group="g",
        queue_id=1,
        start=QueueOffset(7),
        offsets=[QueueOffset(7)],
        pop_ms=now_ms,
        invisible_ms=INVISIBLE_MS,
        broker="broker-a",
    )
