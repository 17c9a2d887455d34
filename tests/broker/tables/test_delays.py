"""Where each delay level reads on."""

from __future__ import annotations

from rocketpipe.broker.tables.delays import DelaysFile, DelayTable
from rocketpipe.model.offsets import QueueOffset


def test_a_level_that_never_read_has_no_place() -> None:
    table = DelayTable()
    assert table.next_offset(1) is None
    table.advance(1, QueueOffset(0))
    assert table.next_offset(1) == 0


def test_only_a_change_is_one() -> None:
    table = DelayTable()
    table.advance(3, QueueOffset(5))
    before = table.changes
    table.advance(3, QueueOffset(5))
    assert table.changes == before
    table.advance(3, QueueOffset(6))
    assert table.changes == before + 1


def test_what_is_written_is_read_again() -> None:
    table = DelayTable()
    table.advance(3, QueueOffset(5))
    file = table.to_file(now_ms=9)
    assert file.version.timestamp == 9
    again = DelayTable()
    again.load(file)
    assert again.next_offset(3) == 5
    assert again.version == file.version


def test_a_place_before_the_first_message_is_the_first() -> None:
    table = DelayTable()
    table.load(DelaysFile(offsets={2: -1}))
    assert table.next_offset(2) == 0
