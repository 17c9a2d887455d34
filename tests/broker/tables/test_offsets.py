"""A group's place in a queue."""

from __future__ import annotations

from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.model.offsets import QueueOffset


def test_a_place_is_that_of_one_group_in_one_queue() -> None:
    table = OffsetTable()
    table.commit("g", "t", 0, QueueOffset(5))
    assert table.committed("g", "t", 0) == 5
    assert table.committed("g", "t", 1) is None
    assert table.committed("other", "t", 0) is None
    table.commit("g", "t", 0, QueueOffset(3))
    assert table.committed("g", "t", 0) == 3


def test_minus_one_which_some_clients_send_is_no_place() -> None:
    table = OffsetTable()
    table.commit("g", "t", 0, QueueOffset(-1))
    assert table.committed("g", "t", 0) is None
