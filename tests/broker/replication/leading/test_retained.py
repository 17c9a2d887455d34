"""What followers need of the log is kept, and not for ever."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from rocketpipe.broker.replication.leading.outgoing import Outgoing
from rocketpipe.broker.replication.leading.retained import MAX_ABSENT, Retained
from rocketpipe.store.upkeep.retention import Pins
from rocketpipe.testing.clock import ManualClock


def follower(number: int | None) -> Outgoing:
    """As much of a connection as is looked at: its id and its address."""
    return cast("Any", Connection(id=number, address="10.0.0.3:50001"))


class Connection(SimpleNamespace):
    __hash__ = object.__hash__


def lowest(pins: Pins) -> tuple[int, str] | None:
    pin = pins.lowest()
    return None if pin is None else (pin.offset, pin.owner)


async def test_a_pin_moves_with_its_follower_and_stays_for_some_time() -> None:
    clock, pins = ManualClock(), Pins()
    retained = Retained(clock, pins.hold, 5_000)
    keeping = asyncio.ensure_future(retained.keep())
    one = follower(2)
    retained.needs(one, 100)
    assert lowest(pins) == (100, "replica 2")
    retained.needs(one, 300)
    assert lowest(pins) == (300, "replica 2")
    retained.left(one)
    await clock.advance(4_000)
    assert lowest(pins) == (300, "replica 2")
    retained.needs(follower(2), 200)  # it came again, with less
    await clock.advance(60_000)
    assert lowest(pins) == (200, "replica 2")
    retained.left(follower(2))
    await clock.advance(6_000)
    assert lowest(pins) is None
    keeping.cancel()


async def test_those_that_are_gone_hold_only_so_much_together() -> None:
    pins = Pins()
    retained = Retained(ManualClock(), pins.hold, 5_000)
    for number in range(1_000):
        one = follower(None)
        retained.needs(one, number)
        retained.left(one)
    assert lowest(pins) == (1_000 - MAX_ABSENT, "replica 10.0.0.3:50001")
    retained.release()
    assert lowest(pins) is None
