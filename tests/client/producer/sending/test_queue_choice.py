"""Which queue a message goes to."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from rocketpipe.client.faults import Variant
from rocketpipe.client.producer.sending.queue_choice import QueueChoice, RoundRobin
from rocketpipe.model.route import MessageQueue
from rocketpipe.testing import ManualClock


def queues(*brokers: str, each: int = 4) -> list[MessageQueue]:
    return [
        MessageQueue(topic="t", broker_name=name, queue_id=number)
        for name in brokers
        for number in range(each)
    ]


QUEUES = queues("a")
TWO = queues("a", "b")


def choice(variant: Variant | None = None, clock: ManualClock | None = None) -> QueueChoice:
    return QueueChoice(variant, clock or ManualClock(), random.Random(1))


def brokers(chosen: QueueChoice, held: list[MessageQueue], sends: int = 16) -> Counter[str]:
    return Counter(chosen.choose("t", held).broker_name for _ in range(sends))


# In turn


def test_successive_sends_go_round_evenly() -> None:
    turns = RoundRobin(random.Random(1))
    first = [turns.next("t", QUEUES).queue_id for _ in range(8)]
    assert first == [(first[0] + turn) % 4 for turn in range(8)]


def test_each_topic_has_its_own_turn() -> None:
    turns = RoundRobin(random.Random(1))
    alternating: Counter[int] = Counter()
    for _ in range(8):
        alternating[turns.next("t", QUEUES).queue_id] += 1
        turns.next("u", QUEUES)
    assert set(alternating.values()) == {2}


def test_producers_start_at_different_queues() -> None:
    starts = {RoundRobin(random.Random(seed)).next("t", QUEUES).queue_id for seed in range(50)}
    assert starts == {0, 1, 2, 3}


def test_of_too_many_topics_the_oldest_starts_anew() -> None:
    turns = RoundRobin(random.Random(1), max_topics=2)
    for topic in ("t", "u", "v"):
        turns.turn(topic)
    assert set(turns._turns) == {"u", "v"}


def test_four_queues_on_each_of_two_brokers_are_eight() -> None:
    chosen = choice()
    assert len({chosen.choose("t", TWO) for _ in range(8)}) == 8


# Without latency fault tolerance


def test_after_a_failure_the_other_broker_is_taken() -> None:
    chosen = choice()
    for _ in range(20):
        assert chosen.choose("t", TWO, failed_last="a").broker_name == "b"
    assert brokers(chosen, TWO) == {"a": 8, "b": 8}  # and only then


def test_the_broker_that_failed_is_taken_when_it_is_the_only_one() -> None:
    assert choice().choose("t", QUEUES, failed_last="a").broker_name == "a"


def test_without_latency_fault_tolerance_slow_brokers_are_as_good_as_others() -> None:
    chosen = choice()
    chosen.note("a", 60_000, failed=True, reachable=False)
    assert brokers(chosen, TWO) == {"a": 8, "b": 8}


# As 4.9


async def test_4_9_avoids_a_slow_broker_until_its_time_has_passed() -> None:
    clock = ManualClock()
    chosen = choice(Variant.V4, clock)
    chosen.note("a", 600)
    assert brokers(chosen, TWO) == {"b": 16}
    await clock.advance(30_000)
    assert brokers(chosen, TWO) == {"a": 8, "b": 8}


def test_4_9_takes_one_of_the_better_half_when_none_is_available() -> None:
    chosen = choice(Variant.V4)
    chosen.note("a", 700)
    chosen.note("b", 20_000)
    assert brokers(chosen, TWO) == {"a": 16}
    assert len({chosen.choose("t", TWO).queue_id for _ in range(8)}) == 4


def test_4_9_forgets_a_broker_that_has_no_queues_any_more() -> None:
    chosen = choice(Variant.V4)
    chosen.note("gone", 700)
    chosen.note("a", 20_000)
    assert chosen.faults is not None
    assert chosen.choose("t", QUEUES).broker_name == "a"  # the next in turn
    assert chosen.faults.is_available("gone")
    assert chosen.faults.pick_at_least_one() == "a"


# As 5.x


async def test_5_x_takes_the_available_then_the_reachable_then_any() -> None:
    clock = ManualClock()
    chosen = choice(Variant.V5, clock)
    three = queues("a", "b", "c")
    chosen.note("a", 5, failed=True, reachable=False)
    chosen.note("b", 5, failed=True)
    assert brokers(chosen, three) == {"c": 16}
    chosen.note("c", 5, failed=True, reachable=False)
    assert brokers(chosen, three) == {"b": 16}
    chosen.note("b", 5, failed=True, reachable=False)
    assert set(brokers(chosen, three, 60)) == {"a", "b", "c"}
    await clock.advance(10_000)
    assert set(brokers(chosen, three, 60)) == {"a", "b", "c"}  # available, if not reachable


def test_5_x_never_takes_the_one_that_failed_last_while_another_will_do() -> None:
    chosen = choice(Variant.V5)
    for _ in range(20):
        assert chosen.choose("t", TWO, failed_last="b").broker_name == "a"
    chosen.note("a", 5, failed=True)
    assert chosen.choose("t", TWO, failed_last="b").broker_name == "a"  # reachable
    chosen.note("a", 5, failed=True, reachable=False)
    taken = {chosen.choose("t", TWO, failed_last="b").broker_name for _ in range(60)}
    assert taken == {"a", "b"}


@pytest.mark.parametrize("variant", [None, Variant.V4, Variant.V5])
def test_as_long_as_all_goes_well_all_variants_go_round(variant: Variant | None) -> None:
    chosen = choice(variant)
    spread: Counter[MessageQueue] = Counter()
    for _ in range(80):
        queue = chosen.choose("t", TWO)
        chosen.note(queue.broker_name, 3)
        spread[queue] += 1
    assert set(spread.values()) == {10}


def test_5_x_goes_on_from_another_place_after_a_failure() -> None:
    many = queues("a", each=64)
    chosen = choice(Variant.V5)
    steps = set()
    for _ in range(8):
        before = chosen.choose("t", many).queue_id
        after = chosen.choose("t", many, failed_last="b").queue_id
        steps.add((after - before) % 64)
    assert len(steps) > 1  # not always the next one
