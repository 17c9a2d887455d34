"""Offsets into parts."""

from __future__ import annotations

import pickle
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.planning.ranges import (
    MEASURED_FROM,
    MEASURED_OF_MANY,
    QueueRange,
    ReadPartition,
    abreast,
    plan,
    to_measure,
)

MEGABYTE = 1 << 20


def span(topic: str, queue_id: int, start: int, end: int) -> QueueRange:
    queue = MessageQueue(topic=topic, broker_name="broker-a", queue_id=queue_id)
    return QueueRange(queue, QueueOffset(start), QueueOffset(end))


def test_queues_without_messages_get_no_part() -> None:
    kept = span("orders", 1, 3, 9)
    found = plan([span("orders", 0, 0, 0), kept, span("orders", 2, 7, 7)], {}, max_bytes=MEGABYTE)
    assert found == [(kept,)]
    assert plan([], {}, max_bytes=MEGABYTE) == []


def test_small_queues_share_a_task_and_large_ones_are_split() -> None:
    small = [span("a", number, 0, 10) for number in range(4)]
    large = span("b", 0, 100, 200)
    sizes = {each.queue: 1000 for each in small} | {large.queue: 3 * MEGABYTE}
    found = plan([large, *small], sizes, max_bytes=MEGABYTE)
    assert found == [
        tuple(small),
        (span("b", 0, 100, 133),),
        (span("b", 0, 133, 166),),
        (span("b", 0, 166, 200),),
    ]


def test_so_many_tasks_as_asked_for_share_the_work() -> None:
    ranges = [span("a", number, 0, 1000) for number in range(3)]
    sizes = {each.queue: 1000 for each in ranges}
    assert len(plan(ranges, sizes, max_bytes=MEGABYTE)) == 1
    for least in (2, 3, 7, 8):
        assert least <= len(plan(ranges, sizes, max_bytes=MEGABYTE, min_partitions=least)) <= 9


def test_one_that_was_not_measured_is_taken_for_like_others_of_its_topic() -> None:
    ranges = [span("a", number, 0, 100) for number in range(100)]
    sizes = {each.queue: 100 * 200 for each in ranges[:3]}
    # 100 ranges of 20,000 bytes, a quarter of a megabyte to a task
    assert len(plan(ranges, sizes, max_bytes=MEGABYTE)) == 8
    assert len(plan(ranges, {}, max_bytes=MEGABYTE)) == 50
    others = [span("b", number, 0, 100) for number in range(100)]
    assert len(plan(others, sizes, max_bytes=MEGABYTE)) == 50


def test_long_ranges_are_measured_and_a_few_of_many_short_ones() -> None:
    long = [span("a", number, 5, 5 + MEASURED_FROM) for number in range(3)]
    assert to_measure(long) == long
    few = [span("b", number, 0, 10) for number in range(9)]
    assert to_measure([*few, *long]) == long
    many = [span("c", number, 0, 100 + number) for number in range(50)]
    assert to_measure([*many, *few, *long]) == [*long, *many[: -MEASURED_OF_MANY - 1 : -1]]


def test_a_part_travels_to_its_task_unchanged() -> None:
    sent = ReadPartition((span("orders", 1, 3, 9),), {"broker-a": "127.0.0.1:10911"})
    assert pickle.loads(pickle.dumps(sent)) == sent


RANGES = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.integers(0, 5)),
    st.tuples(st.integers(0, 1 << 40), st.integers(0, 300), st.none() | st.integers(0, 5000)),
    max_size=8,
)


@given(
    RANGES,
    st.integers(1, 6000),
    st.integers(1, 50),
    st.randoms(use_true_random=False),
)
def test_every_offset_is_read_once_however_it_is_planned(
    drawn: dict[tuple[str, int], tuple[int, int, int | None]],
    max_bytes: int,
    least: int,
    chance: object,
) -> None:
    ranges = [
        span(topic, number, start, start + length)
        for (topic, number), (start, length, _) in drawn.items()
    ]
    sizes = {
        span(topic, number, 0, 0).queue: size
        for (topic, number), (_, _, size) in drawn.items()
        if size is not None
    }
    planned = plan(ranges, sizes, max_bytes=max_bytes, min_partitions=least)
    read = Counter(
        (each.queue, offset)
        for part in planned
        for each in part
        for offset in range(each.start, each.end)
    )
    wanted = Counter((each.queue, at) for each in ranges for at in range(each.start, each.end))
    assert read == wanted
    assert all(each.count > 0 for part in planned for each in part)
    offsets = sum(each.count for each in ranges)
    weights = sum(sizes.get(each.queue, each.count) for each in ranges if each.count)
    if offsets and weights >= least and all(e.count >= least for e in ranges if e.count):
        assert len(planned) >= min(least, offsets)
    shuffled = list(ranges)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert plan(shuffled, sizes, max_bytes=max_bytes, min_partitions=least) == planned


def test_queues_take_turns_and_no_offset_is_lost() -> None:
    ranges = [span("orders", 0, 10, 110), span("orders", 1, 0, 7), span("orders", 2, 5, 55)]
    pieces = list(abreast(ranges, 40))
    for whole in ranges:
        own = [each for each in pieces if each.queue == whole.queue]
        assert [own[0].start, *(each.end for each in own)] == [
            *(each.start for each in own),
            whole.end,
        ]
    assert [each.queue.queue_id for each in pieces] == [0, 1, 2] * 4
    assert max(each.count for each in pieces) == 25
    assert list(abreast([], 40)) == []
    assert list(abreast(ranges, 1000)) == ranges
