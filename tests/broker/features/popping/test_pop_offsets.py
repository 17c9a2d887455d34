"""A place moves when messages are given out, and is committed when that is durable."""

from __future__ import annotations

from rocketpipe.broker.features.popping.pop_offsets import NOTED_GROUP, PopOffsets
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.model.offsets import LogOffset, QueueOffset

PLACE = ("g", "t", 0)


def places() -> tuple[PopOffsets, OffsetTable]:
    table = OffsetTable()
    table.commit(*PLACE, QueueOffset(5))
    return PopOffsets(table), table


def test_a_place_is_ahead_of_what_is_committed_until_the_log_is_durable() -> None:
    popping, table = places()
    popping.advance(*PLACE, QueueOffset(8), LogOffset(100))
    popping.note("revive", 3, QueueOffset(1), LogOffset(100))
    popping.advance(*PLACE, QueueOffset(10), LogOffset(200))
    assert popping.next(*PLACE) == 10
    popping.settle(LogOffset(99))
    assert table.committed(*PLACE) == 5
    popping.settle(LogOffset(199))
    assert table.committed(*PLACE) == 8
    assert table.committed(NOTED_GROUP, "revive", 3) == 1
    assert popping.next(*PLACE) == 10
    popping.settle(LogOffset(200))
    assert table.committed(*PLACE) == 10


def test_who_commits_another_offset_has_the_last_word() -> None:
    popping, table = places()
    popping.advance(*PLACE, QueueOffset(8), LogOffset(100))
    table.commit(*PLACE, QueueOffset(2))
    assert popping.next(*PLACE) == 2
    popping.settle(LogOffset(100))
    assert table.committed(*PLACE) == 2
    popping.advance(*PLACE, QueueOffset(4), LogOffset(300))
    popping.settle(LogOffset(300))
    assert table.committed(*PLACE) == 4


def test_a_reset_that_nobody_popped_after_is_kept_too() -> None:
    popping, table = places()
    popping.advance(*PLACE, QueueOffset(8), LogOffset(100))
    table.commit(*PLACE, QueueOffset(0))
    popping.settle(LogOffset(100))
    assert table.committed(*PLACE) == 0


def test_a_group_that_never_read_has_no_place() -> None:
    popping, table = places()
    assert popping.next("g", "t", 1) is None
    popping.begin("g", "t", 1, QueueOffset(7))
    assert popping.next("g", "t", 1) == table.committed("g", "t", 1) == 7
