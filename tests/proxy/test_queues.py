from __future__ import annotations

from collections import Counter

import pytest

from rocketpipe.model.route import MessageQueue
from rocketpipe.proxy.queues import Queues, bucket
from rocketpipe.record.hot import java_hash

QUEUES = [MessageQueue(topic="t", broker_name="b", queue_id=n) for n in range(4)]


# Of Guava's own test of Hashing.consistentHash.
GOLDEN = [0, 55, 62, 8, 45, 59, 86, 97, 82, 59, 73, 37, 17, 56, 86, 21, 90, 37, 38, 83]


def test_the_hash_is_guavas() -> None:
    assert [bucket(value, 100) for value in range(20)] == GOLDEN


@pytest.mark.parametrize(
    ("value", "buckets", "chosen"),
    [
        (10863919174838991, 11, 6),
        (2016238256797177309, 11, 3),
        (1673758223894951030, 11, 5),
        (2, 100_001, 80_343),
        (2201, 100_001, 22_152),
        (2202, 100_001, 15_018),
        (-1, 1, 0),
    ],
)
def test_the_hash_of_large_numbers_is_guavas(value: int, buckets: int, chosen: int) -> None:
    assert bucket(value, buckets) == chosen


def test_one_more_bucket_moves_few() -> None:
    values = [java_hash(f"group-{n}") for n in range(2000)]
    moved = [bucket(value, 8) != bucket(value, 9) for value in values]
    assert 0 < sum(moved) < 2000 / 9 * 1.5
    assert all(bucket(value, 9) == 8 for value, has in zip(values, moved, strict=True) if has)


def test_a_message_group_stays_in_its_queue() -> None:
    queues = Queues()
    for group in ("x", "y", "größe"):
        chosen = {queues.choose("t", QUEUES, group) for _ in range(5)}
        assert len(chosen) == 1


def test_other_messages_go_round_by_topic() -> None:
    queues = Queues()
    turns = [queues.choose("t", QUEUES, "").queue_id for _ in range(8)]
    assert Counter(turns) == dict.fromkeys(range(4), 2)
    assert queues.choose("u", QUEUES, "").queue_id == 0


def test_turns_are_bounded() -> None:
    queues = Queues()
    for n in range(5000):
        queues.choose(f"t{n}", QUEUES, "")
    assert len(queues._turns) == 4096
