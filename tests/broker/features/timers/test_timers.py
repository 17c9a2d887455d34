"""A timed message shows at its moment: not earlier, once, and whatever happens; or never."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.sending_parts import HOST, SendingParts, put
from tests.broker.support.stepped_clock import HOUR_MS, SteppedClock

from rocketpipe.broker.features.timers import timers
from rocketpipe.broker.features.timers.timers import TICK_MS, Timers
from rocketpipe.errors import RequestRejected
from rocketpipe.model.ids import RecallHandle
from rocketpipe.model.names import TIMER_TOPIC
from rocketpipe.store.config import FlushMode
from rocketpipe.store.errors import StoreFull
from rocketpipe.store.timers import wheel
from rocketpipe.testing.clock import ManualClock


class TimedParts(SendingParts):
    """What a broker needs for timed messages."""

    def __init__(self, root: Path, clock: ManualClock, **changes: Any) -> None:
        super().__init__(root, clock, **changes)
        self.timers = Timers(self.store, self.intake, clock)

    async def park(self, body: bytes, delay_ms: int, queue_id: int = 0) -> RecallHandle:
        """Have a message wait; gives what takes it back."""
        key = body.decode()
        text = f"UNIQ_KEY\x01{key}\x02TIMER_DELAY_MS\x01{delay_ms}\x02".encode()
        await self.intake.put(
            [self.deferral.parked(put(body=body, properties=text, queue_id=queue_id))]
        )
        due_ms = self.clock.now_ms() + delay_ms
        return RecallHandle(topic="t", broker="broker-a", deliver_ms=due_ms, unique_key=key)

    def bodies(self) -> list[bytes]:
        return [message.body for message in self.stored("t")]

    async def pass_by(self, ms: int) -> None:
        await self.clock.advance(ms)
        await self.timers.deliver_due()


Open = Callable[..., TimedParts]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Open the parts, again after the last ones were abandoned, on the same directory."""
    clock = ManualClock(1_700_000_000_250)
    last: list[TimedParts] = []

    def open_parts(**changes: Any) -> TimedParts:
        if last:
            last[-1].abandon()
        last.append(TimedParts(tmp_path, clock, **changes))
        return last[-1]

    yield open_parts
    last[-1].abandon()


async def test_each_shows_at_its_millisecond_whatever_the_order_of_sending(opened: Open) -> None:
    parts = opened()
    for delay_ms in (2500, 40, 2499):
        await parts.park(b"%d" % delay_ms, delay_ms)
    await parts.pass_by(39)
    assert parts.bodies() == []
    await parts.pass_by(1)
    assert parts.bodies() == [b"40"]
    await parts.pass_by(2458)
    assert parts.bodies() == [b"40"]
    await parts.pass_by(1)
    await parts.pass_by(1)
    assert parts.bodies() == [b"40", b"2499", b"2500"]
    message = parts.stored("t")[0]
    assert message.properties["TIMER_DEQUEUE_MS"] == str(message.stored_ms)
    assert message.properties["REAL_TOPIC"] == "t"


async def test_the_loop_wakes_for_what_is_due_next(opened: Open) -> None:
    parts = opened()
    await parts.park(b"a", 1_030)
    loop = asyncio.ensure_future(parts.timers.keep_delivered())
    try:
        await parts.clock.advance(1_029)
        assert parts.bodies() == []
        await parts.clock.advance(1)
        assert parts.bodies() == [b"a"]
    finally:
        loop.cancel()
        await asyncio.wait([loop])


@pytest.mark.parametrize("delivered", [False, True])
async def test_a_killed_broker_delivers_what_it_did_not_and_nothing_twice(
    opened: Open, delivered: bool
) -> None:
    parts = opened()
    await parts.park(b"a", 5000)
    await parts.park(b"b", 9000)
    await parts.clock.advance(5000)
    if delivered:
        await parts.timers.deliver_due()
    parts = opened()
    await parts.timers.deliver_due()
    assert parts.bodies() == [b"a"]
    parts = opened()
    await parts.pass_by(60_000)
    assert parts.bodies() == [b"a", b"b"]


async def test_a_store_that_takes_nothing_delivers_later(
    opened: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    parts = opened()
    await parts.park(b"a", 1000)

    def full(*_: object) -> None:
        raise StoreFull(Path("x"), 1, "no room")

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(parts.store, "append", full)
        for _ in range(3):
            await parts.pass_by(TICK_MS * 10)
    assert caplog.text.count("timed messages wait") == 1
    await parts.timers.deliver_due()
    assert parts.bodies() == [b"a"]


async def test_what_has_nowhere_to_go_holds_up_nobody(opened: Open) -> None:
    parts = opened()
    text = (
        b"UNIQ_KEY\x01x\x02TIMER_OUT_MS\x011700000000000\x02REAL_TOPIC\x01t\x02REAL_QID\x01no\x02"
    )
    await parts.intake.put([put(TIMER_TOPIC, properties=text)])
    await parts.park(b"a", 1000)
    await parts.pass_by(3000)
    assert parts.bodies() == [b"a"]
    assert len(parts.store.derived.timer) == 0


@pytest.mark.parametrize("restart", [False, True])
async def test_what_is_taken_back_is_never_delivered(opened: Open, restart: bool) -> None:
    parts = opened()
    handle = await parts.park(b"a", 5000)
    await parts.park(b"b", 5000)
    await parts.timers.recall(handle, "p", HOST)
    if restart:
        parts = opened()
    await parts.pass_by(10_000)
    assert parts.bodies() == [b"b"]
    with pytest.raises(RequestRejected, match="delivered, or taken back before") as refused:
        await parts.timers.recall(handle, "p", HOST)
    assert refused.value.code == 604


async def test_what_is_being_taken_back_is_not_delivered_meanwhile(opened: Open) -> None:
    parts = opened(flush=FlushMode.SYNC)
    handle = await parts.park(b"a", 1000)
    parts.store.flush()
    parts.visibility.dispatch()
    recalling = asyncio.ensure_future(parts.timers.recall(handle, "p", HOST))
    await asyncio.sleep(0)
    await parts.pass_by(1500)
    while not recalling.done():
        parts.store.flush()
        await asyncio.sleep(0)
    await recalling
    await parts.pass_by(1500)
    parts.store.flush()
    parts.visibility.dispatch()
    assert parts.bodies() == []


async def test_what_waits_for_long_is_put_again_before_the_log_goes(opened: Open) -> None:
    parts = opened(reserved_hours=4)
    await parts.park(b"a", 5 * HOUR_MS)
    due_ms = parts.clock.now_ms() + 5 * HOUR_MS
    await parts.clock.advance(HOUR_MS)
    await parts.timers.roll()
    assert len(parts.stored(TIMER_TOPIC)) == 1
    await parts.clock.advance(HOUR_MS)
    await parts.timers.roll()
    newest = parts.stored(TIMER_TOPIC)[-1]
    assert newest.properties["TIMER_ROLL_TIMES"] == "1"
    (waiting,) = parts.store.derived.timer.pending(0, 1 << 60)
    assert (waiting.due_ms, waiting.log_offset) == (due_ms, newest.log_offset)
    await parts.clock.advance(due_ms - parts.clock.now_ms() - 1)
    await parts.timers.deliver_due()
    assert parts.bodies() == []
    await parts.pass_by(1)
    assert parts.bodies() == [b"a"]


@pytest.mark.parametrize("how", ["TIMER_DELAY_SEC\x0118000", "TIMER_DELAY_MS\x0118000000"])
async def test_what_is_put_again_on_the_way_is_due_when_it_was(opened: Open, how: str) -> None:
    parts = opened(reserved_hours=4)
    text = f"UNIQ_KEY\x01a\x02{how}\x02".encode()
    await parts.intake.put([parts.deferral.parked(put(body=b"a", properties=text))])
    (waiting,) = parts.store.derived.timer.pending(0, 1 << 60)
    await parts.clock.advance(2 * HOUR_MS)
    await parts.timers.roll()
    (rolled,) = parts.store.derived.timer.pending(0, 1 << 60)
    assert rolled.log_offset > waiting.log_offset
    assert rolled.due_ms == waiting.due_ms
    await parts.pass_by(waiting.due_ms - parts.clock.now_ms())
    (message,) = parts.stored("t")
    assert (message.body, message.properties["TIMER_ROLL_TIMES"]) == (b"a", "1")


# Several of one key


async def test_two_of_one_key_and_second_come_once_each_over_a_restart(opened: Open) -> None:
    parts = opened()
    for body, delay_ms in ((b"later", 5900), (b"sooner", 5800)):
        text = f"UNIQ_KEY\x01same\x02TIMER_DELAY_MS\x01{delay_ms}\x02".encode()
        await parts.intake.put([parts.deferral.parked(put(body=body, properties=text))])
    first, second = parts.stored(TIMER_TOPIC)
    assert first.properties["TIMER_OUT_MS"] == second.properties["TIMER_OUT_MS"]
    await parts.pass_by(5800)
    assert parts.bodies() == [b"sooner"]
    parts = opened()
    await parts.pass_by(100)
    assert parts.bodies() == [b"sooner", b"later"]
    parts = opened()
    await parts.pass_by(60_000)
    assert parts.bodies() == [b"sooner", b"later"]
    assert len(parts.store.derived.timer) == 0


async def test_a_recall_takes_all_of_its_key_and_second_and_no_other(opened: Open) -> None:
    parts = opened()
    handle = await parts.park(b"a", 5000)
    await parts.park(b"a", 5000)  # a producer that got no answer
    await parts.park(b"a", 9000)
    await parts.timers.recall(handle, "p", HOST)
    parts = opened()
    await parts.pass_by(8999)
    assert parts.bodies() == []
    await parts.pass_by(1)
    assert parts.bodies() == [b"a"]


async def test_hundreds_of_one_key_and_second_are_taken_back_together(opened: Open) -> None:
    parts = opened()
    for _ in range(250):
        handle = await parts.park(b"a", 5000)
    await parts.timers.recall(handle, "p", HOST)
    assert len(parts.store.derived.timer) == 0
    parts = opened()
    assert len(parts.store.derived.timer) == 0
    await parts.pass_by(60_000)
    assert parts.bodies() == []


async def test_a_message_of_another_key_with_its_hash_is_not_taken_back(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheel, "hashed", lambda _: 7)
    monkeypatch.setattr(timers, "hashed", lambda _: 7)
    parts = opened()
    handle = await parts.park(b"a", 5000)
    await parts.park(b"b", 5000)
    await parts.timers.recall(handle, "p", HOST)
    await parts.pass_by(9000)
    assert parts.bodies() == [b"b"]


# Taken back while it is put again


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("at", range(6))
async def test_what_is_taken_back_while_long_waits_are_put_again_never_comes(
    opened: Open, at: int, restart: bool
) -> None:
    parts = opened(reserved_hours=4)
    handles = [await parts.park(b"%d" % number, 5 * HOUR_MS) for number in range(4)]
    await parts.clock.advance(2 * HOUR_MS)
    rolling = asyncio.ensure_future(parts.timers.roll())
    for _ in range(at):
        await asyncio.sleep(0)
    for handle in handles[1:3]:
        await parts.timers.recall(handle, "p", HOST)
    await rolling
    if restart:
        parts = opened(reserved_hours=4)
    assert len(parts.store.derived.timer) == 2
    await parts.pass_by(9 * HOUR_MS)
    assert parts.bodies() == [b"0", b"3"]


async def test_what_is_being_taken_back_is_not_put_again_meanwhile(opened: Open) -> None:
    parts = opened(flush=FlushMode.SYNC, reserved_hours=4)
    handle = await parts.park(b"a", 5 * HOUR_MS)
    parts.store.flush()
    parts.visibility.dispatch()
    await parts.clock.advance(2 * HOUR_MS)
    recalling = asyncio.ensure_future(parts.timers.recall(handle, "p", HOST))
    for _ in range(4):
        await asyncio.sleep(0)
    # Whoever asked has gone; that it is taken back is in the log.
    recalling.cancel()
    await asyncio.wait([recalling])
    await parts.timers.roll()
    parts.store.flush()
    parts.visibility.dispatch()
    assert [each.tags for each in parts.stored(TIMER_TOPIC)] == [None, "_RECALL_TAG_"]
    assert len(parts.store.derived.timer) == 0
    assert not parts.timers._recalling or await parts.pass_by(0) is None
    assert not parts.timers._recalling


async def test_what_is_put_again_is_taken_back_by_the_handle_of_its_send(opened: Open) -> None:
    parts = opened(reserved_hours=4)
    handle = await parts.park(b"a", 5 * HOUR_MS)
    await parts.clock.advance(2 * HOUR_MS)
    await parts.timers.roll()
    parts = opened(reserved_hours=4)
    await parts.timers.recall(handle, "p", HOST)
    parts = opened(reserved_hours=4)
    await parts.pass_by(9 * HOUR_MS)
    assert parts.bodies() == []


async def test_what_falls_due_while_long_waits_are_put_again_does_not_wait_for_them(
    tmp_path: Path,
) -> None:
    clock = SteppedClock(1_700_000_000_250)
    parts = TimedParts(tmp_path, clock, reserved_hours=4)
    try:
        for number in range(50):
            await parts.park(b"%d" % number, 5 * HOUR_MS)
        await clock.advance(2 * HOUR_MS)
        text = f"TIMER_DELIVER_MS\x01{clock.now_ms() + 1000}\x02".encode()
        await parts.intake.put([parts.deferral.parked(put(body=b"soon", properties=text))])
        rolling = asyncio.ensure_future(parts.timers.roll())
        await asyncio.sleep(0)
        clock.step(1000)
        await rolling
        (soon,) = parts.stored("t")
        assert soon.body == b"soon"
        again = parts.stored(TIMER_TOPIC)[51:]
        assert len(again) == 50
        assert soon.log_offset < again[5].log_offset
    finally:
        parts.abandon()


async def test_what_was_put_off_is_taken_back_and_put_again(tmp_path: Path) -> None:
    clock = SteppedClock(1_700_000_000_250)
    parts = TimedParts(tmp_path, clock, reserved_hours=4)
    try:
        handle = await parts.park(b"a", 3 * HOUR_MS)
        await parts.park(b"b", 3 * HOUR_MS)
        await parts.pass_by(0)
        clock.step(12 * HOUR_MS)
        await parts.pass_by(2 * HOUR_MS)
        await parts.timers.recall(handle, "p", HOST)
        await parts.timers.roll()
        assert len(parts.store.derived.timer) == 1
        await parts.pass_by(HOUR_MS - 1)
        assert parts.bodies() == []
        await parts.pass_by(1)
        assert parts.bodies() == [b"b"]
        assert len(parts.store.derived.timer) == 0
    finally:
        parts.abandon()


async def test_thousands_that_are_due_at_once_come_all_and_in_order(opened: Open) -> None:
    parts = opened()
    for number in range(3000):
        await parts.park(b"%d" % number, 5000 + number % 3)
    await parts.pass_by(6000)
    assert parts.bodies() == [b"%d" % n for n in sorted(range(3000), key=lambda n: n % 3)]
    parts = opened()
    await parts.pass_by(6000)
    assert len(parts.bodies()) == 3000


@pytest.mark.parametrize("step_ms", [50, HOUR_MS, 24 * HOUR_MS])
async def test_a_clock_set_forward_makes_no_delay_shorter(tmp_path: Path, step_ms: int) -> None:
    clock = SteppedClock(1_700_000_000_250)
    parts = TimedParts(tmp_path, clock)
    try:
        await parts.park(b"before", HOUR_MS)
        await parts.pass_by(0)
        clock.step(step_ms)
        await parts.park(b"after", HOUR_MS)
        await parts.pass_by(0)
        await parts.pass_by(HOUR_MS - 1)
        assert parts.bodies() == []
        await parts.pass_by(1)
        assert sorted(parts.bodies()) == [b"after", b"before"]
    finally:
        parts.abandon()


async def test_a_moment_is_one_of_the_wall_clock_whoever_sets_that(tmp_path: Path) -> None:
    clock = SteppedClock(1_700_000_000_250)
    parts = TimedParts(tmp_path, clock)
    try:
        text = f"TIMER_DELIVER_MS\x01{clock.now_ms() + HOUR_MS}\x02".encode()
        await parts.intake.put([parts.deferral.parked(put(body=b"at four", properties=text))])
        clock.step(HOUR_MS - 1)
        await parts.pass_by(0)
        assert parts.bodies() == []
        await parts.pass_by(1)
        assert parts.bodies() == [b"at four"]
    finally:
        parts.abandon()
