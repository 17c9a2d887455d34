"""Offsets into parts."""

from __future__ import annotations

import pickle
from itertools import permutations

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.ranges import QueueRange, plan


def part(topic: str, queue_id: int, start: int, end: int) -> QueueRange:
    queue = MessageQueue(topic=topic, broker_name="broker-a", queue_id=queue_id)
    return QueueRange(queue, "127.0.0.1:10911", QueueOffset(start), QueueOffset(end))


def test_queues_without_messages_get_no_part() -> None:
    kept = part("orders", 1, 3, 9)
    assert plan([part("orders", 0, 0, 0), kept, part("orders", 2, 7, 7)]) == [kept]
    assert plan([]) == []


def test_the_plan_does_not_depend_on_the_order_in_which_queues_were_found() -> None:
    parts = [part("a", 0, 0, 1), part("a", 2, 0, 1), part("a", 10, 0, 1), part("b", 1, 0, 1)]
    assert all(plan(found) == parts for found in permutations(parts))


def test_a_part_travels_to_its_task_unchanged() -> None:
    sent = part("orders", 1, 3, 9)
    assert pickle.loads(pickle.dumps(sent)) == sent
