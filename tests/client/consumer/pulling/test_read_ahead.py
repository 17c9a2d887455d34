"""What is in hand, how much may be, and what of it is done."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.consumer.support.records import messages, queue

from rocketpipe.client.consumer.pulling.read_ahead import FetchBuffer, ReadAhead, ReadLimits
from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import QueueOffset


def at(offset: int) -> QueueOffset:
    return QueueOffset(offset)


def place(start: int = 0) -> ReadAhead:
    return ReadAhead(queue(), at(start))


# One queue


def test_messages_come_in_order_and_are_done_when_more_is_asked_for() -> None:
    here = place(5)
    here.add(messages(5, 6, 8), at(9))
    assert (here.next_offset, here.position, here.done) == (9, 5, 5)
    assert [message.queue_offset for message in here.take(2)] == [5, 6]
    assert (here.position, here.done) == (7, 5)
    here.settle()
    assert here.done == 7
    assert [message.queue_offset for message in here.take(9)] == [8]
    assert here.position == 9
    assert here.take(1) == []


def test_what_nobody_wants_is_done_when_all_before_it_is() -> None:
    here = place()
    here.add([], at(40))
    assert (here.position, here.done) == (40, 40)
    here.add(messages(40), at(41))
    here.take(1)
    here.add([], at(90))
    assert (here.position, here.done) == (90, 40)
    here.settle()
    assert here.done == 90
    here.add(messages(91), at(92))
    here.add([], at(99))
    assert here.done == 90, "what is in hand comes before what is behind it"
    here.take(1)
    here.settle()
    assert here.done == 99


def test_going_elsewhere_drops_what_is_in_hand() -> None:
    here = place()
    here.add(messages(0, 1, 2), at(3))
    here.take(1)
    here.seek(at(70))
    assert (len(here), here.next_offset, here.position, here.done) == (0, 70, 70, 70)


def test_what_is_fetched_once_more_is_not_done_by_that() -> None:
    here = place()
    here.add(messages(0, 1, 2), at(3))
    here.take(2)
    here.drop()
    assert (len(here), here.next_offset, here.position, here.done) == (0, 2, 2, 0)


@pytest.mark.parametrize(
    ("limits", "held", "room"),
    [
        (ReadLimits(messages=3), (0, 1), True),
        (ReadLimits(messages=3), (0, 1, 2), False),
        (ReadLimits(body_bytes=13), (0, 1, 2), True),
        (ReadLimits(body_bytes=12), (0, 1, 2), False),
        (ReadLimits(span=2000), (0, 2000), True),
        (ReadLimits(span=2000), (0, 2001), False),
    ],
)
def test_there_is_room_up_to_the_limits(
    limits: ReadLimits, held: tuple[int, ...], room: bool
) -> None:
    here = place()
    assert here.has_room(limits)
    here.add(messages(*held), at(held[-1] + 1))
    assert here.has_room(limits) is room
    here.take(len(held))
    assert here.has_room(limits)


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="span=0"):
        ReadLimits(span=0)


# All queues


def test_queues_take_turns() -> None:
    buffer = FetchBuffer(ReadLimits())
    for number in (0, 1, 2):
        buffer.open(queue(number), at(0))
    for number in (1, 0):
        buffer.add(buffer.places[queue(number)], messages(0, 1, 2, of=queue(number)), at(3))
    turns = []
    while (taken := buffer.take(2)) is not None:
        turns.append((taken[0].queue.queue_id, len(taken[1])))
    assert turns == [(1, 2), (0, 2), (1, 1), (0, 1)]
    assert len(buffer) == 0


def test_a_paused_queue_keeps_what_it_has() -> None:
    buffer = FetchBuffer(ReadLimits())
    here = buffer.open(queue(), at(0))
    buffer.add(here, messages(0), at(1))
    buffer.pause(queue(), True)
    assert buffer.take(1) is None
    buffer.add(here, messages(1), at(2))
    assert buffer.take(1) is None
    buffer.pause(queue(), False)
    taken = buffer.take(9)
    assert taken is not None
    assert [message.queue_offset for message in taken[1]] == [0, 1]


def test_what_was_dropped_is_not_handed_out() -> None:
    buffer = FetchBuffer(ReadLimits())
    buffer.add(buffer.open(queue(0), at(0)), messages(0, 1), at(2))
    buffer.add(buffer.open(queue(1), at(0)), messages(0), at(1))
    buffer.seek(queue(0), at(9))
    assert buffer.remove(queue(1)) is not None
    assert buffer.remove(queue(1)) is None
    assert buffer.take(1) is None
    assert len(buffer) == 0
    assert list(buffer.places) == [queue(0)]


def test_a_failure_is_told_once_and_is_over_when_messages_come() -> None:
    buffer = FetchBuffer(ReadLimits())
    here, there = buffer.open(queue(0), at(0)), buffer.open(queue(1), at(0))
    error = RequestRejected(16, "no")
    buffer.fail(here, error)
    assert buffer.failure() is error
    assert buffer.failure() is None
    buffer.fail(here, error)
    buffer.fail(there, error)
    buffer.add(here, [], at(1))
    buffer.remove(queue(1))
    assert buffer.failure() is None


async def test_whoever_waits_is_woken_by_messages_and_by_failures() -> None:
    buffer = FetchBuffer(ReadLimits())
    here = buffer.open(queue(), at(0))
    come = partial(buffer.add, here, messages(0), at(1))
    fail = partial(buffer.fail, here, RequestRejected(16, "no"))
    for act in (come, fail):
        waiting = asyncio.create_task(buffer.arrival())
        await asyncio.sleep(0)
        buffer.add(here, [], here.next_offset)
        await asyncio.sleep(0)
        assert not waiting.done()
        act()
        await waiting
        buffer.take(1)


async def test_a_pull_waits_while_its_queue_is_full_or_paused() -> None:
    buffer = FetchBuffer(ReadLimits(messages=2))
    here = buffer.open(queue(), at(0))
    buffer.add(here, messages(0, 1), at(2))
    waiting = asyncio.create_task(buffer.room(here))
    await asyncio.sleep(0)
    buffer.pause(queue(), True)
    buffer.seek(queue(), at(5))
    await asyncio.sleep(0)
    assert not waiting.done()
    buffer.pause(queue(), False)
    await waiting


async def test_a_pull_waits_while_all_queues_together_are_full_unless_it_has_nothing() -> None:
    buffer = FetchBuffer(ReadLimits(messages_in_all=3))
    here, there = buffer.open(queue(0), at(0)), buffer.open(queue(1), at(0))
    buffer.add(here, messages(0, 1, of=queue(0)), at(2))
    buffer.add(there, messages(0, of=queue(1)), at(1))
    empty = buffer.open(queue(2), at(0))
    await buffer.room(empty)
    waiting = asyncio.create_task(buffer.room(here))
    await asyncio.sleep(0)
    assert not waiting.done()
    buffer.remove(queue(1))
    await waiting


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 2), st.integers(0, 5)),
            st.tuples(st.just("take"), st.integers(1, 4), st.just(0)),
            st.tuples(st.just("seek"), st.integers(0, 2), st.integers(0, 50)),
            st.tuples(st.just("pause"), st.integers(0, 2), st.integers(0, 1)),
        )
    )
)
def test_whatever_happens_offsets_keep_their_order_and_the_count_is_right(
    steps: list[tuple[str, int, int]],
) -> None:
    buffer = FetchBuffer(ReadLimits())
    for number in range(3):
        buffer.open(queue(number), at(0))
    handed: dict[int, int] = dict.fromkeys(range(3), 0)
    for what, number, amount in steps:
        if what == "take":
            taken = buffer.take(number)
            for message in taken[1] if taken else []:
                number = message.queue.queue_id
                assert message.queue_offset == handed[number], "none left out, none twice"
                handed[number] += 1
            if taken:
                taken[0].settle()
        elif what == "add":
            start = buffer.places[queue(number)].next_offset
            came = messages(*range(start, start + amount), of=queue(number))
            buffer.add(buffer.places[queue(number)], came, at(start + amount))
        elif what == "seek":
            buffer.seek(queue(number), at(amount))
            handed[number] = amount
        else:
            buffer.pause(queue(number), bool(amount))
        for here in buffer:
            assert here.done <= here.position <= here.next_offset
        assert len(buffer) == sum(len(here) for here in buffer)
