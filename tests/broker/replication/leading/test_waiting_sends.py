"""Answers that wait for replicas are called once each, in the order of the log."""

from __future__ import annotations

import asyncio

from rocketpipe.broker.replication.leading.waiting_sends import Done, WaitingSends
from rocketpipe.model.offsets import LogOffset
from rocketpipe.testing.clock import ManualClock


class Told:
    def __init__(self) -> None:
        self.answers: list[tuple[str, int]] = []

    def by(self, name: str) -> Done:
        return lambda code, _: self.answers.append((name, code))


async def test_each_is_called_when_its_end_is_reached() -> None:
    sends, told = WaitingSends(ManualClock()), Told()
    for name, end in (("b", 20), ("a", 10), ("c", 30)):
        sends.add(LogOffset(end), 1000, told.by(name))
    sends.release(LogOffset(9), 0)
    assert told.answers == []
    sends.release(LogOffset(20), 0)
    assert told.answers == [("a", 0), ("b", 0)]
    assert len(sends) == 1
    sends.fail((14, "over"))
    assert told.answers[2:] == [("c", 14)]
    assert len(sends) == 0


async def test_what_takes_too_long_is_told_so_and_never_again() -> None:
    clock = ManualClock()
    sends, told = WaitingSends(clock), Told()
    sends.add(LogOffset(10), 1000, told.by("a"))
    await clock.advance(0)
    await clock.advance(500)
    sends.add(LogOffset(20), 1000, told.by("b"))
    await clock.advance(500)
    assert told.answers == [("a", 12)]
    await clock.advance(510)
    assert told.answers == [("a", 12), ("b", 12)]
    sends.release(LogOffset(20), 0)
    assert len(told.answers) == 2
    sends.add(LogOffset(30), 1000, told.by("c"))
    await clock.advance(0)
    await clock.advance(1000)
    assert told.answers[2:] == [("c", 12)]


async def test_ten_thousand_wait_and_are_told() -> None:
    clock = ManualClock()
    sends, told = WaitingSends(clock), Told()
    for end in range(10_000):
        sends.add(LogOffset(end), 1000, told.by(str(end)))
    sends.release(LogOffset(4_999), 0)
    await clock.advance(0)
    await clock.advance(1000)
    assert [code for _, code in told.answers] == [0] * 5_000 + [12] * 5_000
    await asyncio.sleep(0)
    assert len(sends) == 0
