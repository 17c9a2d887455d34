"""A delay level may be longer than the log is kept: what waits for it is delivered all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.sending_parts import SendingParts, put
from tests.broker.support.stepped_clock import SteppedClock

from rocketpipe.broker.features.timers.timers import ROLL_EVERY_MS, Timers
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.protocol.requests.sending import SendMessageBack
from rocketpipe.store.errors import StoreFull
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.upkeep.retention import Retention
from rocketpipe.testing.clock import ManualClock

HOUR_MS = 3_600_000
LEVEL, DELAY_MS = 18, 2 * HOUR_MS


class FullDisk(Disk):
    """A disk that says how full it is."""

    percent = 10

    def usage(self, path: Path) -> tuple[int, int, int]:
        return 100, self.percent, 100 - self.percent


class KeptParts(SendingParts):
    """What has messages wait, and what removes old files, of a log that is kept for an hour."""

    def __init__(self, root: Path, clock: ManualClock, **changes: Any) -> None:
        super().__init__(root, clock, **{"segment_bytes": 16 << 10, "reserved_hours": 1, **changes})
        self.delays.hold_log()
        pin = self.pins.hold(self.store.first_offset, "timed messages", yields=True)
        self.timers = Timers(self.store, self.intake, clock, pin=pin)
        self.disk = FullDisk()
        self.retention = Retention(
            self.store, disk=self.disk, clock=clock, pins=self.pins, zone=UTC
        )

    async def park(self, body: bytes = b"late", topic: str = "t") -> None:
        text = b"UNIQ_KEY\x01" + body + b"\x02"
        await self.intake.put([self.delays.parked(put(topic, body=body, properties=text), LEVEL)])

    async def fill(self) -> None:
        """Have other messages begin a new file of the log."""
        await self.intake.put([put("other", body=bytes(9 << 10)) for _ in range(2)])

    async def deliver(self) -> None:
        await self.delays.deliver_due()
        await self.timers.deliver_due()

    async def pass_by(self, ms: int, *, remove: bool = True) -> None:
        """Let time pass in tens of minutes, with traffic, and what is old go."""
        while ms:
            step = min(ms, ROLL_EVERY_MS)
            ms -= step
            await self.clock.advance(step)
            await self.fill()
            await self.deliver()
            if remove:
                self.store.flush()
                self.retention.run(on_request=True)

    def bodies(self, topic: str = "t") -> list[bytes]:
        return [message.body for message in self.stored(topic)]


Open = Callable[..., KeptParts]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Open the parts, again after the last ones were abandoned, on the same directory."""
    clock = ManualClock(1_700_000_000_000)
    last: list[KeptParts] = []

    def open_parts(**changes: Any) -> KeptParts:
        if last:
            last[-1].abandon()
        last.append(KeptParts(tmp_path, clock, **changes))
        return last[-1]

    yield open_parts
    last[-1].abandon()


@pytest.mark.parametrize("topic", ["t", "%RETRY%g"])
async def test_a_level_longer_than_the_log_is_kept_delivers_in_its_time(
    opened: Open, topic: str
) -> None:
    parts = opened()
    await parts.park(topic=topic)
    (waits,) = parts.stored(SCHEDULE_TOPIC, LEVEL - 1)
    await parts.pass_by(DELAY_MS - 1)
    assert parts.bodies(topic) == []
    assert parts.store.first_offset > waits.log_offset, "what it waits as is gone by now"
    await parts.pass_by(1)
    assert parts.bodies(topic) == [b"late"]
    await parts.pass_by(DELAY_MS)
    assert parts.store.max_offset(topic, 0) == 1, "it was delivered once"


async def test_a_level_of_days_holds_no_more_of_the_log_than_is_kept(opened: Open) -> None:
    parts = opened(delay_levels="3d")
    await parts.intake.put([parts.delays.parked(put(body=b"late"), 1)])
    for _ in range(3):
        await parts.pass_by(HOUR_MS)
        await parts.clock.advance(23 * HOUR_MS - 1)
        await parts.fill()
        await parts.deliver()
        await parts.clock.advance(1)
        assert len(parts.store.commit_log.run.segments) < 30
        assert parts.bodies() == []
    await parts.pass_by(HOUR_MS)
    assert parts.bodies() == [b"late"]


async def test_what_waits_is_kept_while_nobody_hands_it_on(opened: Open) -> None:
    parts = opened()
    await parts.park()
    (waits,) = parts.stored(SCHEDULE_TOPIC, LEVEL - 1)
    await parts.delays.deliver_due()
    for _ in range(12):
        await parts.fill()
        await parts.clock.advance(ROLL_EVERY_MS)
        parts.store.flush()
        parts.retention.run(on_request=True)
    assert parts.store.first_offset <= waits.log_offset
    parts = opened()
    parts.store.flush()
    parts.retention.run(on_request=True)
    assert parts.store.first_offset <= waits.log_offset
    await parts.deliver()
    assert parts.bodies() == [b"late"]
    await parts.fill()
    await parts.deliver()
    parts.store.flush()
    parts.retention.run(on_request=True)
    assert parts.store.first_offset > waits.log_offset


@pytest.mark.parametrize("save", [False, True])
async def test_a_killed_broker_hands_nothing_over_twice(opened: Open, save: bool) -> None:
    parts = opened()
    for body in (b"a", b"b", b"c"):
        await parts.park(body)
    for _ in range(6):
        await parts.pass_by(ROLL_EVERY_MS * 2)
        if save:
            parts.tables.save()
        parts = opened()
    await parts.pass_by(HOUR_MS)
    assert sorted(parts.bodies()) == [b"a", b"b", b"c"]
    levels = [each.properties.get("TIMER_DELAY_LEVEL") for each in parts.stored("t")]
    assert levels == ["18"] * 3


async def test_a_store_that_takes_nothing_is_handed_over_later(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = opened()
    bodies = [b"%03d" % number for number in range(100)]
    for body in bodies:
        await parts.park(body)
    await parts.clock.advance(HOUR_MS)

    def full(*_: object) -> None:
        raise StoreFull(Path("x"), 1, "no room")

    with monkeypatch.context() as patched:
        patched.setattr(parts.store, "append", full)
        await parts.deliver()
    await parts.deliver()
    assert [each.body for each in parts.stored(TIMER_TOPIC)] == bodies
    await parts.clock.advance(HOUR_MS)
    await parts.deliver()
    assert sorted(parts.bodies()) == bodies


async def test_what_is_short_enough_stays_with_its_level(opened: Open) -> None:
    parts = opened(reserved_hours=72)
    await parts.park()
    await parts.pass_by(DELAY_MS)
    assert parts.bodies() == [b"late"]
    assert parts.stored(TIMER_TOPIC) == []


async def test_a_disk_that_fills_up_takes_what_waits_and_this_is_said(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    parts = opened()
    await parts.park(b"a")
    await parts.park(b"b")
    await parts.delays.deliver_due()
    for _ in range(3):
        await parts.fill()
    parts.store.flush()
    parts.disk.percent = 89
    parts.retention.run()
    assert parts.store.first_offset > 0
    await parts.deliver()
    assert "expired with the log before they were due level=18 count=2" in caplog.text
    await parts.park(b"c")
    parts.disk.percent = 10
    await parts.pass_by(DELAY_MS)
    assert parts.bodies() == [b"c"]


@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_retry_of_what_was_put_again_waits_as_long_as_its_level(
    opened: Open, is_kept: bool
) -> None:
    parts = opened()
    await parts.park()
    await parts.pass_by(DELAY_MS, remove=not is_kept)
    (message,) = parts.stored("t")
    assert message.properties["TIMER_ROLL_TIMES"], "it was put again on the way"
    group = GroupSettings(name="g")
    request = SendMessageBack(group="g", offset=message.log_offset, delay_level=LEVEL)
    await parts.intake.put([await parts.retries.sent_back(request, group, 501)])
    await parts.pass_by(DELAY_MS - 1, remove=not is_kept)
    assert parts.bodies("%RETRY%g") == []
    await parts.pass_by(1)
    assert parts.bodies("%RETRY%g") == [b"late"]


@pytest.mark.parametrize("left_ms", [5 * 60_000, 5 * HOUR_MS])
async def test_timed_messages_outlive_a_broker_that_was_away_for_longer_than_the_log_is_kept(
    opened: Open, left_ms: int
) -> None:
    parts = opened()
    text = b"UNIQ_KEY\x01K\x02TIMER_DELAY_MS\x01%d\x02" % (3 * HOUR_MS + left_ms)
    await parts.intake.put([parts.deferral.parked(put(body=b"late", properties=text))])
    await parts.fill()
    await parts.clock.advance(3 * HOUR_MS)
    parts = opened()
    while left_ms:
        await parts.fill()
        parts.store.flush()
        parts.retention.run(on_request=True)
        assert parts.bodies() == []
        step_ms = min(ROLL_EVERY_MS // 2, left_ms)
        left_ms -= step_ms
        await parts.clock.advance(step_ms)
        await parts.deliver()
    assert parts.bodies() == [b"late"]
    await parts.pass_by(20 * ROLL_EVERY_MS)
    assert parts.store.first_offset > 0, "nothing is held for longer than it has to be"


@pytest.mark.parametrize("restart", [False, True])
async def test_a_timed_message_stored_by_a_clock_that_was_ahead_does_not_go_with_the_log(
    tmp_path: Path, restart: bool
) -> None:
    clock = SteppedClock(1_700_000_000_000)
    parts = KeptParts(tmp_path, clock)
    due_ms = clock.now_ms() + 30 * HOUR_MS
    clock.step(24 * HOUR_MS)
    text = b"UNIQ_KEY\x01K\x02TIMER_DELIVER_MS\x01%d\x02" % due_ms
    await parts.intake.put([parts.deferral.parked(put(body=b"late", properties=text))])
    await parts.fill()
    clock.step(-24 * HOUR_MS)
    await parts.deliver()
    if restart:
        parts.store.close()
        parts = KeptParts(tmp_path, clock)
    await parts.pass_by(4 * HOUR_MS)
    assert len(parts.stored(TIMER_TOPIC)) < 8, "it is put again no more often than others"
    while clock.now_ms() < due_ms:
        assert parts.bodies() == []
        await parts.pass_by(HOUR_MS)
    assert parts.bodies() == [b"late"]
    parts.abandon()
