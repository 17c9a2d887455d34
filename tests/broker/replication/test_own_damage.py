"""What is known of damage in the own log, until it is mended."""

from __future__ import annotations

import asyncio

import pytest

from rocketpipe.broker.replication.own_damage import AGAIN_MS, OwnDamage
from rocketpipe.store.state.damage import DamagedRecords
from rocketpipe.testing.clock import ManualClock


class Parts:
    def __init__(self, *, mendable: bool = True) -> None:
        self.clock = ManualClock()
        self.changes = 0
        self.records = DamagedRecords()
        self.damage = OwnDamage(self.clock, lambda: mendable, self._changed)
        self.damage.watch(self.records)

    def _changed(self) -> None:
        self.changes += 1

    def read(self, *places: int) -> None:
        for at in places:
            self.records.note(at, "no magic", "in the log")


def test_damage_that_is_read_is_due_until_it_is_mended() -> None:
    parts = Parts()
    assert not parts.damage
    parts.read(700, 90, 20)
    assert parts.damage
    assert (parts.damage.is_due, parts.damage.first, parts.changes) == (True, 20, 3)
    assert parts.records.awaits(90)
    parts.damage.mended(0, 100)
    assert (parts.damage.first, parts.changes) == (700, 4)
    parts.damage.mended(700, 800)
    assert not parts.damage
    assert not parts.damage.is_due


def test_where_nobody_else_has_the_log_readers_go_on() -> None:
    parts = Parts(mendable=False)
    parts.read(20)
    assert parts.damage, "it cannot lead all the same"
    assert parts.records.skips(20)


async def test_what_cannot_be_mended_is_told_once_and_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    parts = Parts()
    parts.read(20)
    parts.damage.not_mended("it is another log")
    assert parts.records.skips(20), "nobody waits for what may never come"
    assert not parts.damage.is_due
    await parts.clock.advance(AGAIN_MS)
    assert parts.damage.is_due
    parts.damage.not_mended("it is another log")
    assert caplog.text.count("cannot be mended") == 1
    parts.read(30)
    assert parts.damage.is_due, "what is new is tried at once"


async def test_who_waits_hears_of_the_first_damage() -> None:
    parts = Parts()
    waiting = asyncio.create_task(parts.damage.seen())
    await asyncio.sleep(0)
    assert not waiting.done()
    parts.read(20)
    await waiting
    await parts.damage.seen()
