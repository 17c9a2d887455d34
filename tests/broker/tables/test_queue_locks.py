"""Who may consume a queue in order."""

from __future__ import annotations

import pytest

from rocketpipe.broker.tables.limits import TableFull, TableLimits
from rocketpipe.broker.tables.queue_locks import LOCK_MS, QueueLocks
from rocketpipe.model.route import MessageQueue


def queue(queue_id: int) -> MessageQueue:
    return MessageQueue(topic="t", broker_name="b", queue_id=queue_id)


def test_a_queue_belongs_to_whoever_asked_first() -> None:
    locks = QueueLocks()
    assert locks.lock("g", "a", [queue(0), queue(1)], 0) == {queue(0), queue(1)}
    assert locks.lock("g", "b", [queue(1), queue(2)], 0) == {queue(2)}
    assert locks.owner("g", queue(1), 0) == "a"
    assert locks.owner("g", queue(2), 0) == "b"
    assert locks.owner("g", queue(3), 0) is None


def test_groups_do_not_take_queues_from_each_other() -> None:
    locks = QueueLocks()
    locks.lock("g", "a", [queue(0)], 0)
    assert locks.lock("h", "b", [queue(0)], 0) == {queue(0)}


def test_a_lock_that_is_not_renewed_is_over_after_a_minute() -> None:
    locks = QueueLocks()
    locks.lock("g", "a", [queue(0)], 0)
    assert locks.lock("g", "b", [queue(0)], LOCK_MS) == frozenset()
    assert locks.lock("g", "a", [queue(0)], LOCK_MS) == {queue(0)}
    assert locks.lock("g", "b", [queue(0)], 2 * LOCK_MS) == frozenset()
    assert locks.owner("g", queue(0), 2 * LOCK_MS + 1) is None
    assert locks.lock("g", "b", [queue(0)], 2 * LOCK_MS + 1) == {queue(0)}


def test_who_may_only_renew_gets_nothing_new() -> None:
    locks = QueueLocks()
    assert locks.lock("g", "a", [queue(0)], 0, renew_only=True) == frozenset()
    locks.lock("g", "a", [queue(0)], 0)
    assert locks.lock("g", "a", [queue(0), queue(1)], 1, renew_only=True) == {queue(0)}
    assert locks.lock("g", "b", [queue(0)], LOCK_MS + 1, renew_only=True) == frozenset()


def test_all_locks_of_one_member_are_given_back_at_once() -> None:
    locks = QueueLocks()
    locks.unlock_all("g", "a")
    locks.lock("g", "a", [queue(0), queue(1)], 0)
    locks.lock("g", "b", [queue(2)], 0)
    locks.unlock_all("g", "a")
    assert [locks.owner("g", queue(each), 0) for each in range(3)] == [None, None, "b"]


def test_only_its_owner_gives_a_lock_back() -> None:
    locks = QueueLocks()
    locks.lock("g", "a", [queue(0)], 0)
    locks.unlock("g", "b", [queue(0)])
    assert locks.owner("g", queue(0), 0) == "a"
    locks.unlock("g", "a", [queue(0), queue(7)])
    assert locks.owner("g", queue(0), 0) is None
    locks.unlock("unknown", "a", [queue(0)])


def test_a_group_holds_locks_until_the_last_is_over_or_given_back() -> None:
    locks = QueueLocks()
    assert not locks.holds_any("g", 0)
    locks.lock("g", "a", [], 0)
    assert not locks.holds_any("g", 0)
    locks.lock("g", "a", [queue(0)], 0)
    locks.lock("g", "a", [queue(1)], 10)
    assert locks.holds_any("g", LOCK_MS + 10)
    assert not locks.holds_any("g", LOCK_MS + 11)
    locks.lock("g", "a", [queue(0), queue(1)], 0)
    locks.unlock("g", "a", [queue(0), queue(1)])
    assert not locks.holds_any("g", 0)


def test_what_is_over_is_forgotten_before_anything_is_refused() -> None:
    locks = QueueLocks(TableLimits(locks=2, online_groups=1))
    locks.lock("g", "a", [queue(0), queue(1)], 0)
    with pytest.raises(TableFull, match="2 locked queues of group g"):
        locks.lock("g", "a", [queue(0), queue(2)], 1)
    with pytest.raises(TableFull, match="1 groups that lock queues"):
        locks.lock("h", "a", [queue(0)], 1)
    assert locks.lock("h", "a", [queue(0)], LOCK_MS + 1) == {queue(0)}
    assert locks.expire(3 * LOCK_MS) == 1
    assert not locks.holds_any("h", LOCK_MS + 1)
