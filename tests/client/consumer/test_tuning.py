from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import pytest

from rocketpipe.client.consumer.tuning import PushTuning, Room


def test_the_defaults_are_rocketmqs() -> None:
    tuning = PushTuning()
    assert tuning.room(4) == Room(1000, 100 << 20, 2000)
    assert (tuning.pull_count, tuning.pull_bytes, tuning.pull_suspend_ms) == (32, 262_144, 15_000)
    assert (tuning.consume_timeout_ms, tuning.persist_every_ms) == (900_000, 5000)
    assert (tuning.lock_every_ms, tuning.lock_start_ms, tuning.lock_life_ms) == (
        20_000,
        30_000,
        60_000,
    )
    assert tuning.max_attempts is None


def test_a_name_that_it_does_not_have_gets_a_hint() -> None:
    old: Any = {"max_retries": 3}
    with pytest.raises(TypeError, match="PushTuning has no 'max_retries': use max_attempts"):
        PushTuning(**old)
    assert copy(PushTuning(max_attempts=3)) == replace(PushTuning(), max_attempts=3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"queue_messages": 0},
        {"queue_messages": 65_536},
        {"queue_mib": 1025},
        {"topic_messages": 0},
        {"topic_mib": 102_401},
        {"span": 65_536},
        {"pull_count": 1025},
        {"pull_interval_ms": -1},
        {"suspend_queue_ms": 9},
        {"max_attempts": 0},
        {"lock_every_ms": 30_000},
        {"lock_start_ms": 60_001},
    ],
)
def test_a_number_out_of_its_range_is_refused_by_name(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PushTuning(**wrong)


def test_a_limit_of_a_topic_is_shared_by_its_queues() -> None:
    tuning = PushTuning(topic_messages=100, topic_mib=10)
    assert tuning.room(4) == Room(25, 2 << 20, 2000)
    assert tuning.room(1000) == Room(1, 1 << 20, 2000)
    assert tuning.room(0) == Room(100, 10 << 20, 2000)
    assert PushTuning(queue_messages=10, topic_messages=100).room(2).messages == 10


def test_room_is_left_up_to_each_of_the_limits() -> None:
    room = Room(2, 100, 5)
    assert room.is_left(2, 100, 5)
    assert not room.is_left(3, 100, 5)
    assert not room.is_left(2, 101, 5)
    assert not room.is_left(2, 100, 6)
