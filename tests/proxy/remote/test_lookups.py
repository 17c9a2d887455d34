"""What is asked of brokers once, and remembered for a while."""

from __future__ import annotations

import asyncio

import pytest

from rocketpipe.errors import ConnectionLost
from rocketpipe.proxy.remote.lookups import FRESH_MS, MISSING_MS, Lookups
from rocketpipe.testing import ManualClock


class Asked:
    """Answers what it has, and counts."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.times = 0
        self.is_away = False

    async def ask(self, name: str) -> str | None:
        self.times += 1
        await asyncio.sleep(0)
        if self.is_away:
            raise ConnectionLost("a:1", "away")
        return self.known.get(name)


async def test_an_answer_is_good_for_a_while_and_one_question_serves_all_who_wait() -> None:
    clock, asked = ManualClock(), Asked()
    asked.known["a"] = "old"
    lookups = Lookups(asked.ask, clock)
    assert await asyncio.gather(*(lookups.get("a") for _ in range(10))) == ["old"] * 10
    asked.known["a"] = "new"
    assert await lookups.get("a") == "old"
    assert asked.times == 1
    await clock.advance(FRESH_MS)
    assert await lookups.get("a") == "new"


async def test_what_is_missing_is_asked_for_again_soon() -> None:
    clock, asked = ManualClock(), Asked()
    lookups = Lookups(asked.ask, clock)
    assert await lookups.get("a") is None
    asked.known["a"] = "here"
    assert await lookups.get("a") is None
    await clock.advance(MISSING_MS)
    assert await lookups.get("a") == "here"


async def test_an_old_answer_serves_while_nobody_can_be_asked() -> None:
    clock, asked = ManualClock(), Asked()
    asked.known["a"] = "old"
    lookups = Lookups(asked.ask, clock)
    await lookups.get("a")
    asked.is_away = True
    await clock.advance(FRESH_MS)
    assert await lookups.get("a") == "old"
    with pytest.raises(ConnectionLost):
        await lookups.get("b")


async def test_of_too_many_the_oldest_goes() -> None:
    asked = Asked()
    lookups = Lookups(asked.ask, ManualClock(), max_names=2)
    for name in ("a", "b", "c"):
        await lookups.get(name)
    assert asked.times == 3
    await lookups.get("c")
    assert asked.times == 3
    await lookups.get("a")
    assert asked.times == 4
