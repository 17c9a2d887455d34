"""Queues are shared out as RocketMQ's brokers do, so that nobody is left out."""

from __future__ import annotations

import pytest

from rocketpipe.broker.features.popping.pop_assignment import (
    STRATEGIES,
    average,
    by_circle,
    shared,
    shared_by_pop,
)
from rocketpipe.model.route import MessageQueue

QUEUES = [MessageQueue(topic="t", broker_name="a", queue_id=each) for each in range(5)]
MEMBERS = ["c1", "c2", "c3"]


def ids(queues: list[MessageQueue]) -> list[int]:
    return [queue.queue_id for queue in queues]


def test_on_average_the_first_members_have_one_more() -> None:
    assert [ids(shared(average, each, MEMBERS, QUEUES)) for each in MEMBERS] == [
        [0, 1],
        [2, 3],
        [4],
    ]


def test_by_circle_each_has_every_third() -> None:
    shares = [ids(shared(by_circle, each, MEMBERS, QUEUES)) for each in MEMBERS]
    assert shares == [[0, 3], [1, 4], [2]]


@pytest.mark.parametrize("name", sorted(STRATEGIES))
@pytest.mark.parametrize("count", [1, 4, 5, 6, 9])
def test_every_queue_is_somebodys(name: str, count: int) -> None:
    members = [f"c{each}" for each in range(count)]
    shares = [shared(STRATEGIES[name], each, members, QUEUES) for each in members]
    assert sorted(queue for share in shares for queue in share) == QUEUES
    assert shared(STRATEGIES[name], "stranger", members, QUEUES) == []


@pytest.mark.parametrize("share", [-1, 0, 2, 7])
def test_by_pop_all_members_have_any_queue_unless_fewer_are_to_share(share: int) -> None:
    assert ids(shared_by_pop(average, "c1", MEMBERS, QUEUES, share)) == [-1]


def test_by_pop_a_member_has_the_queues_of_the_next_ones_too() -> None:
    members = ["c1", "c2", "c3", "c4"]
    assert ids(shared_by_pop(average, "c1", members, QUEUES, 1)) == [0, 1, 2]
    assert ids(shared_by_pop(average, "c4", members, QUEUES, 1)) == [4, 0, 1]
    assert shared_by_pop(average, "stranger", members, QUEUES, 1) == []


def test_by_pop_more_members_than_queues_all_have_one() -> None:
    members = [f"c{each}" for each in range(8)]
    shares = [ids(shared_by_pop(average, each, members, QUEUES, 2)) for each in members]
    assert shares == [[0], [1], [2], [3], [4], [0], [1], [2]]
