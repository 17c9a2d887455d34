"""Which queue a message goes to."""

from __future__ import annotations

import random
from collections import Counter

from rocketpipe.client.producer.queue_choice import RoundRobin
from rocketpipe.model.route import MessageQueue

QUEUES = [MessageQueue(topic="t", broker_name="a", queue_id=number) for number in range(4)]


def test_successive_sends_go_round_evenly() -> None:
    choice = RoundRobin(random.Random(1))
    first = [choice.next("t", QUEUES).queue_id for _ in range(8)]
    assert first == [(first[0] + turn) % 4 for turn in range(8)]


def test_each_topic_has_its_own_turn() -> None:
    choice = RoundRobin(random.Random(1))
    alternating = Counter()
    for _ in range(8):
        alternating[choice.next("t", QUEUES).queue_id] += 1
        choice.next("u", QUEUES)
    assert set(alternating.values()) == {2}


def test_producers_start_at_different_queues() -> None:
    starts = {RoundRobin(random.Random(seed)).next("t", QUEUES).queue_id for seed in range(50)}
    assert starts == {0, 1, 2, 3}
