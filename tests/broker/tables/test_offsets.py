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


def test_who_has_places_where_is_known_without_looking_at_all_of_them() -> None:
    table = OffsetTable()
    for group, topic, queue_id in (("a", "t", 0), ("a", "t", 1), ("a", "u", 0), ("b", "t", 0)):
        table.commit(group, topic, queue_id, QueueOffset(3))
    assert len(table) == 4
    assert table.topics_of("a") == ["t", "u"]
    assert table.groups_of("t") == ["a", "b"]
    assert table.places("a", "t") == {0: 3, 1: 3}
    table.forget_topic("t")
    assert (table.topics_of("a"), table.groups_of("t"), len(table)) == (["u"], [], 1)
    assert table.topics_of("b") == []
    assert table.places("a", "t") == {}


def test_a_file_that_could_not_be_read_again_is_never_written() -> None:
    limit = 20_000
    for group, topic in (("g" * 120, "t" * 250), ("\x01" * 120, "é" * 250), ('"' * 99, "\\" * 99)):
        table = OffsetTable(max_bytes=limit)

        def fill(
            places: int, table: OffsetTable = table, pair: tuple[str, str] = (group, topic)
        ) -> None:
            for number in range(places):
                name = f"{pair[1]}{number // 7}"
                table.commit(pair[0], name, 2**31 - 1 - number, QueueOffset(2**63))

        with pytest.raises(TableFull, match="bytes of places"):
            fill(10_000)
        assert len("".join(table.pieces(0)).encode()) <= limit
        before = len(table)
        table.forget_group(group)
        assert len(table) == 0
        fill(before)
