from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.client.consumer.support.sample_messages import message, messages

from rocketpipe.client.consumer.pushing.process_queue import STUCK_AT_ONCE, ProcessQueue


def filled(*offsets: int) -> ProcessQueue:
    queue = ProcessQueue()
    queue.put(messages(*offsets))
    return queue


def test_what_is_put_counts_by_number_bytes_and_span() -> None:
    queue = filled(10, 11, 15)
    assert (len(queue), queue.span) == (3, 5)
    assert queue.bytes == sum(len(b"body %d" % offset) for offset in (10, 11, 15))


def test_an_offset_that_is_there_is_replaced_and_not_counted_twice() -> None:
    queue = filled(10, 11)
    longer = message(10, body=b"longer than before")
    queue.put([longer])
    assert len(queue) == 2
    assert queue.bytes == len(b"longer than before") + len(b"body 11")
    assert longer in queue
    assert message(10) not in queue


def test_an_ordered_consumer_is_told_to_begin_once_until_it_found_nothing() -> None:
    queue = ProcessQueue()
    assert queue.put(messages(1))
    assert not queue.put(messages(2))
    assert [one.queue_offset for one in queue.take(5)] == [1, 2]
    assert not queue.put([])
    assert queue.take(1) == []
    assert queue.put(messages(3))


# Concurrent: what remove gives is what may be committed.


def test_the_smallest_that_is_left_is_committed_whatever_order_they_end_in() -> None:
    held = messages(10, 11, 12)
    queue = ProcessQueue()
    queue.put(held)
    assert queue.remove([held[1]]) == 10
    assert queue.remove([held[0]]) == 12
    assert queue.remove([held[2]]) == 13
    assert (len(queue), queue.bytes, queue.span) == (0, 0, 0)


def test_when_nothing_is_left_the_greatest_ever_put_is_behind_us() -> None:
    held = messages(10, 25)
    queue = ProcessQueue()
    queue.put(held)
    assert queue.remove(held) == 26


def test_nothing_is_committed_of_empty_hands() -> None:
    assert ProcessQueue().remove(messages(1)) is None
    queue = filled(1)
    queue.drop()
    assert queue.remove(messages(1)) is None
    assert queue.dropped


def test_another_message_with_the_same_offset_is_not_removed() -> None:
    queue = filled(1, 2)
    assert queue.remove([message(1)]) == 1
    assert len(queue) == 2


# Ordered.


def test_what_is_taken_counts_until_it_is_committed() -> None:
    queue = filled(1, 2, 3)
    assert [one.queue_offset for one in queue.take(2)] == [1, 2]
    assert len(queue) == 3
    assert queue.commit() == 3
    assert len(queue) == 1
    assert queue.bytes == len(b"body 3")
    assert queue.commit() is None


def test_what_failed_is_at_the_head_again() -> None:
    queue = filled(1, 2, 3)
    queue.take(2)
    queue.again()
    assert [one.queue_offset for one in queue.take(3)] == [1, 2, 3]


def test_of_a_batch_the_first_may_be_done_and_the_others_come_again() -> None:
    queue = filled(1, 2, 3)
    taken = queue.take(3)
    queue.again(taken[1:])
    assert queue.commit() == 2
    assert [one.queue_offset for one in queue.take(3)] == [2, 3]


# The clean-up.


def test_only_the_head_of_the_queue_can_be_stuck() -> None:
    held = messages(1, 2, 3)
    queue = ProcessQueue()
    queue.put(held)
    queue.start([held[0], held[2]], now_ms=0)
    assert queue.stuck(now_ms=100, timeout_ms=100) == []
    # The second has not begun, so that the third is not at the head.
    assert queue.stuck(now_ms=101, timeout_ms=100) == [held[0]]
    queue.remove([held[0], held[1]])
    assert queue.stuck(now_ms=101, timeout_ms=100) == [held[2]]


def test_the_clean_up_looks_at_a_few_at_a_time() -> None:
    held = messages(*range(40))
    queue = ProcessQueue()
    queue.put(held)
    queue.start(held, now_ms=0)
    assert queue.stuck(now_ms=10, timeout_ms=1) == held[:STUCK_AT_ONCE]


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=40, unique=True),
    st.randoms(use_true_random=False),
)
def test_a_commit_never_passes_what_is_not_done(offsets: list[int], order: object) -> None:
    held = messages(*sorted(offsets))
    queue = ProcessQueue()
    queue.put(held)
    waiting = {one.queue_offset for one in held}
    shuffled = list(held)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    last = -1
    for one in shuffled:
        committed = queue.remove([one])
        waiting.discard(one.queue_offset)
        assert committed is not None
        assert committed == (min(waiting) if waiting else max(offsets) + 1)
        assert committed >= last
        last = committed
