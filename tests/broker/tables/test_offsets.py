"""A group's place in a queue."""

from __future__ import annotations

import pytest

from rocketpipe.broker.tables.limits import TableFull
from rocketpipe.broker.tables.offsets import COMMITS_A_VERSION, OffsetsFile, OffsetTable
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


def test_the_file_has_queues_by_topic_and_group() -> None:
    table = OffsetTable()
    table.commit("g", "t", 0, QueueOffset(5))
    table.commit("g", "t", 3, QueueOffset(6))
    table.commit("g", "a", 0, QueueOffset(7))
    file = table.to_file(now_ms=1)
    assert file.offsets == {"t@g": {0: 5, 3: 6}, "a@g": {0: 7}}
    assert file.topics_by_group == {"g": ["a", "t"]}
    again = OffsetTable()
    again.load(file)
    assert sorted(again.all()) == sorted(table.all())


def test_entries_of_no_group_and_places_before_the_first_message_are_passed_over() -> None:
    table = OffsetTable()
    table.load(OffsetsFile(offsets={"t": {0: 5}, "t@g": {0: -1, 1: 2}}))
    assert list(table.all()) == [("g", "t", 1, 2)]


def test_many_commits_are_one_new_version() -> None:
    table = OffsetTable()
    before = table.version.counter
    for offset in range(COMMITS_A_VERSION - 1):
        table.commit("g", "t", 0, QueueOffset(offset))
    assert table.to_file(now_ms=1).version.counter == before
    table.commit("g", "t", 0, QueueOffset(1))
    assert table.to_file(now_ms=2).version.counter == before + 1
    assert table.to_file(now_ms=3).version.timestamp == 2


def test_a_group_or_a_topic_that_goes_is_forgotten() -> None:
    table = OffsetTable()
    for group in ("g", "h"):
        for topic in ("t", "u"):
            table.commit(group, topic, 0, QueueOffset(1))
    before = table.changes
    table.forget_group("g")
    table.forget_topic("u")
    assert list(table.all()) == [("h", "t", 0, 1)]
    assert table.changes > before


def test_so_many_places_are_kept_and_one_more_is_refused() -> None:
    table = OffsetTable(limit=2)
    table.commit("g", "t", 0, QueueOffset(1))
    table.commit("g", "t", 1, QueueOffset(1))
    with pytest.raises(TableFull, match="2 places"):
        table.commit("g", "t", 2, QueueOffset(1))
    table.commit("g", "t", 1, QueueOffset(2))
    assert table.committed("g", "t", 1) == 2
    assert table.committed("g", "t", 2) is None
