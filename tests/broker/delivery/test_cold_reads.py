"""Cold reads are counted by group and for all, five seconds at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.support.sending_parts import SendingParts, put

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.delivery.cold_reads import LISTED_MS, WINDOW_MS, ColdReads
from rocketpipe.broker.tables.limits import TableFull
from rocketpipe.model.offsets import LogOffset
from rocketpipe.testing.clock import ManualClock


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[SendingParts]:
    parts = SendingParts(tmp_path, ManualClock())
    yield parts
    parts.abandon()


def counting(
    parts: SendingParts, *, limit: int = 10, group: int = 100, total: int = 250
) -> ColdReads:
    config = BrokerConfig(data=parts.config.data, cold_group_bytes=group, cold_total_bytes=total)
    return ColdReads(config, parts.store, parts.clock, hot_bytes=1000, limit=limit)


async def test_a_message_is_cold_once_enough_was_stored_behind_it(parts: SendingParts) -> None:
    cold = counting(parts)
    await parts.intake.put([put(body=bytes(500))])
    assert not cold.is_cold(LogOffset(0))
    await parts.intake.put([put(body=bytes(1000))])
    assert cold.is_cold(LogOffset(0))
    assert not cold.is_cold(LogOffset(parts.store.positions.written - 1000))


async def test_a_group_has_enough_until_the_next_window(parts: SendingParts) -> None:
    cold = counting(parts)
    cold.read("g", 99)
    assert not cold.has_enough("g")
    cold.read("g", 1)
    assert cold.has_enough("g")
    assert not cold.has_enough("other")
    await parts.clock.advance(WINDOW_MS)
    assert not cold.has_enough("g")


async def test_a_group_may_have_a_limit_of_its_own(parts: SendingParts) -> None:
    cold = counting(parts)
    cold.allow("g", 200)
    cold.read("g", 150)
    assert not cold.has_enough("g")
    cold.forget("g")
    assert cold.has_enough("g")


async def test_all_together_have_enough_but_who_comes_anew(parts: SendingParts) -> None:
    cold = counting(parts, group=1000)
    for group in ("a", "b", "c"):
        cold.read(group, 90)
    assert cold.has_enough("a")
    assert not cold.has_enough("d")


async def test_it_is_told_under_rocketmqs_names_and_forgotten_after_a_minute(
    parts: SendingParts,
) -> None:
    cold = counting(parts)
    now_ms = parts.clock.now_ms()
    cold.allow("h", 7)
    cold.read("g", 30)
    assert cold.info() == {
        "runtimeTable": {
            "g": {"coldAcc": 30, "createTimeMills": now_ms, "lastColdReadTimeMills": now_ms}
        },
        "configTable": {"h": 7},
        "cgColdReadThreshold": 100,
        "globalColdReadThreshold": 250,
        "globalAcc": 30,
    }
    await parts.clock.advance(LISTED_MS + 1)
    assert cold.info()["runtimeTable"] == {}


async def test_made_up_groups_do_not_pile_up(parts: SendingParts) -> None:
    cold = counting(parts, limit=2)
    for group in "abcd":
        cold.read(group, 1)
    assert len(cold.info()["runtimeTable"]) == 2  # type: ignore[arg-type]
    cold.allow("a", 1)
    cold.allow("b", 1)
    cold.allow("b", 2)
    with pytest.raises(TableFull, match="2 groups with a limit of their own"):
        cold.allow("c", 1)
