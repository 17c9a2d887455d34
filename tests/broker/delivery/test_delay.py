"""A delayed message shows when its level is over: not earlier, once, and whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.sending_parts import SendingParts, put
from tests.broker.support.stepped_clock import HOUR_MS, SteppedClock

from rocketpipe.broker.delivery.delay import BACK_OFF_MS, TICK_MS
from rocketpipe.errors import RequestRejected
from rocketpipe.model import properties
from rocketpipe.model.names import HALF_TOPIC, SCHEDULE_TOPIC
from rocketpipe.store.config import FlushMode
from rocketpipe.store.errors import StoreFull
from rocketpipe.store.log.puts import Put
from rocketpipe.testing.clock import ManualClock

Open = Callable[..., SendingParts]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Open the parts, again after the last ones were abandoned, on the same directory."""
    clock = ManualClock()
    last: list[SendingParts] = []

    def open_parts(**changes: Any) -> SendingParts:
        if last:
            last[-1].abandon()
        last.append(SendingParts(tmp_path, clock, **changes))
        return last[-1]

    yield open_parts
    last[-1].abandon()


async def park(parts: SendingParts, level: int, body: bytes = b"body", **changes: Any) -> None:
    key = f"UNIQ_KEY\x01{body.decode()}\x02".encode()
    message = put(body=body, properties=key, **changes)
    await parts.intake.put([parts.delays.parked(message, level)])


def bodies(parts: SendingParts, topic: str = "t") -> list[bytes]:
    return [message.body for message in parts.stored(topic)]


async def test_a_parked_message_keeps_where_it_belongs_and_falls_due_by_its_level(
    opened: Open,
) -> None:
    parts = opened()
    parked = parts.delays.parked(put(queue_id=3), 2)
    assert (parked.topic, parked.queue_id) == (SCHEDULE_TOPIC, 1)
    assert properties.decode_bytes(parked.properties) == {
        "UNIQ_KEY": "K1",
        "DELAY": "2",
        "REAL_TOPIC": "t",
        "REAL_QID": "3",
    }


async def test_a_level_beyond_the_last_is_the_last(opened: Open) -> None:
    parts = opened()
    parked = parts.delays.parked(put(properties=b"DELAY\x0199\x02"), 99)
    assert parked.queue_id == 17
    assert properties.decode_bytes(parked.properties)["DELAY"] == "18"


async def test_a_level_counts_for_more_than_a_timer(opened: Open) -> None:
    timed = put(properties=b"TIMER_DELAY_MS\x015\x02TIMER_DELIVER_MS\x016\x02a\x01b\x02")
    parked = opened().delays.parked(timed, 1)
    assert not any(name.startswith("TIMER") for name in properties.decode_bytes(parked.properties))


@pytest.mark.parametrize(
    ("delay_ms", "level"), [(0, 1), (1000, 1), (1001, 2), (30_000, 4), (7_200_001, 18)]
)
async def test_the_level_for_a_time_lasts_at_least_as_long(
    opened: Open, delay_ms: int, level: int
) -> None:
    assert opened().delays.level_for(delay_ms) == level


async def test_a_message_shows_when_its_level_is_over_and_not_before(opened: Open) -> None:
    parts = opened()
    await park(parts, 2, queue_id=3, flag=9, reconsume_times=2)
    await parts.clock.advance(4999)
    await parts.delays.deliver_due()
    assert parts.stored("t", 3) == []
    await parts.clock.advance(1)
    await parts.delays.deliver_due()
    await parts.delays.deliver_due()
    (message,) = parts.stored("t", 3)
    assert (message.body, message.flag, message.reconsume_times) == (b"body", 9, 2)
    # As stored: consumers of RocketMQ see all three.
    assert message.properties["DELAY"] == "2"
    assert message.properties["REAL_TOPIC"] == "t"
    assert message.properties["REAL_QID"] == "3"


async def test_levels_do_not_wait_for_each_other(opened: Open) -> None:
    parts = opened()
    await park(parts, 3, b"ten")
    await park(parts, 1, b"one")
    await park(parts, 2, b"five")
    work = asyncio.create_task(parts.delays.keep_delivered())
    await parts.clock.advance(1000 + TICK_MS)
    assert bodies(parts) == [b"one"]
    await parts.clock.advance(4000)
    assert bodies(parts) == [b"one", b"five"]
    await parts.clock.advance(5000)
    assert bodies(parts) == [b"one", b"five", b"ten"]
    work.cancel()


async def test_many_that_fall_due_at_once_come_in_their_order(opened: Open) -> None:
    parts = opened()
    wanted = [b"%03d" % number for number in range(200)]
    for body in wanted:
        await park(parts, 1, body)
    await parts.clock.advance(1000)
    await parts.delays.deliver_due()
    assert bodies(parts) == wanted


async def test_the_loop_is_never_early_and_late_by_no_more_than_its_tick(opened: Open) -> None:
    parts = opened()
    work = asyncio.create_task(parts.delays.keep_delivered())
    await parts.clock.advance(37)
    await park(parts, 1)
    due_ms = parts.clock.now_ms() + 1000
    for _ in range(130):
        await parts.clock.advance(10)
    (message,) = parts.stored("t")
    assert due_ms <= message.stored_ms <= due_ms + TICK_MS
    work.cancel()


async def test_a_restart_goes_on_where_the_last_run_ended(opened: Open) -> None:
    parts = opened()
    await park(parts, 1, b"first")
    await parts.clock.advance(1000)
    await parts.delays.deliver_due()
    parts.store.flush()
    await parts.delays.deliver_due()
    parts.tables.save()
    await park(parts, 1, b"second")
    parts = opened()
    assert parts.tables.delays.next_offset(1) == 1
    await parts.clock.advance(1000)
    await parts.delays.deliver_due()
    assert bodies(parts) == [b"first", b"second"]


async def test_what_was_delivered_and_not_noted_is_not_delivered_again(opened: Open) -> None:
    parts = opened()
    for body in (b"1", b"2", b"3"):
        await park(parts, 1, body)
    await parts.clock.advance(1000)
    await parts.delays.deliver_due()
    await park(parts, 1, b"4")
    await parts.clock.advance(1000)
    parts = opened()  # nothing was saved
    assert parts.tables.delays.next_offset(1) is None
    await parts.delays.deliver_due()
    assert bodies(parts) == [b"1", b"2", b"3", b"4"]


async def test_the_same_key_on_another_message_does_not_hide_one(opened: Open) -> None:
    parts = opened()
    await parts.intake.put([put(properties=b"UNIQ_KEY\x01K\x02"), put(body=b"K")])
    parked = parts.delays.parked(put(body=b"K", properties=b"UNIQ_KEY\x01K\x02"), 1)
    await parts.intake.put([parked])
    await parts.clock.advance(1000)
    parts = opened()
    await parts.delays.deliver_due()
    assert bodies(parts) == [b"body", b"K", b"K"]


async def test_two_messages_with_one_key_are_told_apart_by_what_they_say(opened: Open) -> None:
    parts = opened()
    for body in (b"one", b"two"):
        parked = parts.delays.parked(put(body=body, properties=b"UNIQ_KEY\x01K\x02"), 1)
        await parts.intake.put([parked])
        await parts.clock.advance(600)
    await parts.clock.advance(300)
    await parts.delays.deliver_due()
    assert bodies(parts) == [b"one"]
    await parts.clock.advance(600)
    parts = opened()
    await parts.delays.deliver_due()
    assert bodies(parts) == [b"one", b"two"]


async def test_nothing_overtakes_a_message_of_its_level(opened: Open) -> None:
    parts = opened(delay_levels="10s")
    await park(parts, 1, b"ten")
    parts.store.close()
    parts = opened(delay_levels="5s")
    await park(parts, 1, b"five")
    await parts.clock.advance(5000)
    await parts.delays.deliver_due()
    assert bodies(parts) == []  # or the first would be lost
    await parts.clock.advance(5000)
    await parts.delays.deliver_due()
    assert bodies(parts) == [b"ten", b"five"]


async def test_a_place_is_noted_once_what_was_delivered_is_durable(opened: Open) -> None:
    parts = opened()
    await park(parts, 1, b"first")
    await parts.clock.advance(1000)
    await parts.delays.deliver_due()
    await park(parts, 1, b"second")
    await parts.clock.advance(1000)
    await parts.delays.deliver_due()
    await parts.delays.deliver_due()
    assert bodies(parts) == [b"first", b"second"]
    assert parts.tables.delays.next_offset(1) is None
    parts.store.flush()
    await parts.delays.deliver_due()
    assert parts.tables.delays.next_offset(1) == 2


async def test_the_end_of_the_loop_notes_everything(opened: Open) -> None:
    parts = opened()
    await park(parts, 1)
    work = asyncio.create_task(parts.delays.keep_delivered())
    await parts.clock.advance(1000 + TICK_MS)
    assert bodies(parts) == [b"body"]
    work.cancel()
    await asyncio.wait([work])
    assert parts.tables.delays.next_offset(1) == 1


async def test_with_sync_flush_it_shows_after_the_sync(opened: Open) -> None:
    parts = opened(flush=FlushMode.SYNC)
    await park(parts, 1)
    parts.store.flush()
    parts.visibility.dispatch()
    await parts.clock.advance(1000)
    await parts.delays.deliver_due()
    assert bodies(parts) == []
    parts.store.flush()
    await asyncio.sleep(0)
    assert bodies(parts) == [b"body"]


async def test_a_place_outside_the_queue_is_moved_into_it(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    parts = opened()
    await park(parts, 1, b"old")
    parts.tables.delays.advance(1, 7)  # type: ignore[arg-type]
    parts.tables.save()
    parts = opened()
    assert "moved into its queue level=1 noted=7 first=0 end=1" in caplog.text
    await park(parts, 1, b"new")
    await parts.clock.advance(1000)
    await parts.delays.deliver_due()
    assert bodies(parts) == [b"new"]


async def test_what_waits_in_a_level_that_was_made_shorter_waits_no_longer(opened: Open) -> None:
    parts = opened()
    await park(parts, 18)
    parts.store.close()
    parts = opened(delay_levels=" ".join(["1s"] * 18))
    await parts.delays.deliver_due()
    await parts.clock.advance(999)
    await parts.delays.deliver_due()
    assert bodies(parts) == []
    await parts.clock.advance(1)
    await parts.delays.deliver_due()
    assert bodies(parts) == [b"body"]


@pytest.mark.parametrize("step_ms", [-24 * HOUR_MS, -HOUR_MS, -50, 50, HOUR_MS])
async def test_a_wall_clock_that_is_set_makes_nothing_early(tmp_path: Path, step_ms: int) -> None:
    clock = SteppedClock()
    parts = SendingParts(tmp_path, clock)
    try:
        await park(parts, 17, b"an hour")
        await parts.delays.deliver_due()
        clock.step(step_ms)
        await park(parts, 17, b"another")
        await clock.advance(1000)
        await parts.delays.deliver_due()
        await park(parts, 17, b"a second later")
        await clock.advance(HOUR_MS - 1001)
        await parts.delays.deliver_due()
        assert bodies(parts) == []
        await clock.advance(1)
        await parts.delays.deliver_due()
        assert bodies(parts)[:1] == [b"an hour"]
        await clock.advance(999)
        await parts.delays.deliver_due()
        assert b"a second later" not in bodies(parts)
        await clock.advance(1)
        await parts.delays.deliver_due()
        assert bodies(parts)[:2] == [b"an hour", b"another"]
    finally:
        parts.abandon()


async def test_what_a_clock_ahead_of_this_one_stored_waits_as_long_as_its_level(
    tmp_path: Path,
) -> None:
    parts = SendingParts(tmp_path, ManualClock(1_700_000_000_000 + HOUR_MS))
    await park(parts, 2, b"of yesterday")
    parts.abandon()
    clock = ManualClock(1_700_000_000_000)  # it was set back while nothing ran
    parts = SendingParts(tmp_path, clock)
    work = asyncio.create_task(parts.delays.keep_delivered())
    try:
        await clock.advance(TICK_MS)
        # These are by the clock again, and stand behind one that is not.
        for number in range(30):
            await park(parts, 2, b"%d" % number)
            await clock.advance(200)
            due = [b"%d" % each for each in range(number - 23)]  # 25 of them are five seconds
            late = 2 if due else 0
            got = bodies(parts)[1:]
            assert got == due[: len(got)], "it was early"
            assert len(got) >= len(due) - late
        assert bodies(parts)[0] == b"of yesterday"
        assert len(parts.delays._levels[1].seen) <= 51
        await clock.advance(5000 + 2 * TICK_MS)
        assert len(bodies(parts)) == 31
    finally:
        work.cancel()
        parts.abandon()


async def test_what_a_clock_ahead_of_this_one_stored_is_not_delivered_twice(tmp_path: Path) -> None:
    parts = SendingParts(tmp_path, ManualClock(1_700_000_000_000 + HOUR_MS))
    await park(parts, 1, b"of yesterday")
    parts.abandon()
    clock = ManualClock(1_700_000_000_000)  # it was set back while nothing ran
    for _ in range(2):  # the first one is killed before it noted what it delivered
        parts = SendingParts(tmp_path, clock)
        for _ in range(3):
            await parts.delays.deliver_due()
            await clock.advance(1000)
        parts.visibility.dispatch()
        assert bodies(parts) == [b"of yesterday"]
        parts.abandon()


async def test_while_the_store_is_full_messages_wait(
    opened: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    parts = opened()
    await park(parts, 1)
    await parts.clock.advance(1000)

    def refuse(groups: object) -> None:
        raise StoreFull(Path("log"), 10, "disk full")

    with monkeypatch.context() as patch:
        patch.setattr(parts.store, "append", refuse)
        for _ in range(3):
            await parts.delays.deliver_due()
    assert caplog.text.count("disk full") == 1
    await parts.delays.deliver_due()
    assert bodies(parts) == [b"body"]


@pytest.mark.parametrize(
    "text",
    [
        b"DELAY\x011\x02",
        b"DELAY\x011\x02REAL_TOPIC\x01t\x02",
        b"DELAY\x011\x02REAL_TOPIC\x01t\x02REAL_QID\x01x\x02",
        b"DELAY\x011\x02REAL_TOPIC\x01../../t\x02REAL_QID\x010\x02",
        b"DELAY\x011\x02REAL_TOPIC\x01" + HALF_TOPIC.encode() + b"\x02REAL_QID\x010\x02",
    ],
)
async def test_a_message_without_a_place_to_go_holds_up_nobody(
    opened: Open, caplog: pytest.LogCaptureFixture, text: bytes
) -> None:
    parts = opened()
    await park(parts, 1, b"before")
    await parts.intake.put([put(SCHEDULE_TOPIC, properties=text)])
    await park(parts, 1, b"behind")
    await parts.clock.advance(1000)
    await parts.delays.deliver_due()
    assert bodies(parts) == [b"before", b"behind"]
    assert caplog.text.count("passed over") == 1


async def test_what_nobody_thought_of_is_told_and_tried_again_later(
    opened: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    parts = opened()
    await park(parts, 1)

    async def broken(puts: list[Put]) -> None:
        raise RuntimeError("odd")

    work = asyncio.create_task(parts.delays.keep_delivered())
    with monkeypatch.context() as patch:
        patch.setattr(parts.intake, "put", broken)
        await parts.clock.advance(1000 + TICK_MS)
    assert "delayed messages wait" in caplog.text
    await parts.clock.advance(BACK_OFF_MS)
    assert bodies(parts) == [b"body"]
    work.cancel()


async def test_a_full_store_refuses_a_delayed_send_too(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = opened()

    def refuse(groups: object) -> None:
        raise StoreFull(Path("log"), 10, "disk full")

    monkeypatch.setattr(parts.store, "append", refuse)
    with pytest.raises(RequestRejected, match="service not available now: no room at log"):
        await parts.intake.take([parts.delays.parked(put(), 1)], wait=True)


async def test_what_waits_for_a_level_that_is_named_no_more_is_delivered(opened: Open) -> None:
    parts = opened()
    await park(parts, 18, b"a")
    await park(parts, 2, b"b")
    parts = opened(delay_levels="1s 5s 10s")
    assert parts.delays.parked(put(), 18).queue_id == 2, "nothing is added to it"
    await parts.delays.deliver_due()
    await parts.clock.advance(9_999)
    await parts.delays.deliver_due()
    assert bodies(parts) == [b"b"]
    await parts.clock.advance(1)
    await parts.delays.deliver_due()
    assert bodies(parts) == [b"b", b"a"]
