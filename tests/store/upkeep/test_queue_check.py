"""Queue entries against what they should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.queues.entries import BLANK_ENTRY, queue_entry
from rocketpipe.store.upkeep import queue_check
from rocketpipe.store.upkeep.findings import Kind, Report
from rocketpipe.store.upkeep.queue_check import QueueCheck, queues_on_disk

FILE_ENTRIES = 50


def entry(number: int) -> tuple[int, int, int]:
    return 1000 * number, 100 + number, -number


def write_queue(layout: StoreLayout, topic: str, first: int, end: int) -> None:
    """Entries from ``first`` up to ``end``, as a broker lays them out that starts at ``first``."""
    directory = layout.queues / topic / "0"
    directory.mkdir(parents=True)
    for start in range(first - first % FILE_ENTRIES, end, FILE_ENTRIES):
        data = b"".join(
            BLANK_ENTRY if number < first else queue_entry(*entry(number))
            for number in range(start, min(end, start + FILE_ENTRIES))
        )
        path = directory / f"{start * 20:020d}"
        path.write_bytes(data.ljust(FILE_ENTRIES * 20, b"\0"))


@pytest.mark.parametrize("blocks", [1, 8192])
def test_queues_over_many_files_are_compared_entry_by_entry(
    tmp_path: Path, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_check, "_MOST_BLOCKS", blocks)
    layout, report = StoreLayout(tmp_path), Report()
    write_queue(layout, "a", 0, 333)
    write_queue(layout, "b", 120, 333)
    check = QueueCheck(Disk(), layout, report)
    for number in range(333):
        check.expect(("a", 0), number, entry(number))
        if number >= 120:
            check.expect(("b", 0), number, entry(number))
    check.finish(LogOffset(0))
    assert report.ok, report.lines()
    assert report.queue_entries == 333 + 213


def test_entries_that_fill_up_a_first_file_are_of_no_message(tmp_path: Path) -> None:
    layout, report = StoreLayout(tmp_path), Report()
    write_queue(layout, "b", 120, 130)
    check = QueueCheck(Disk(), layout, report)
    check.expect(("b", 0), 119, entry(119))
    assert report.counts == {Kind.QUEUE_ENTRY_MISSING: 1}


def test_entries_before_the_log_are_stale_and_others_dangle(tmp_path: Path) -> None:
    layout, report = StoreLayout(tmp_path), Report()
    write_queue(layout, "a", 0, 60)
    check = QueueCheck(Disk(), layout, report)
    check.expect(("a", 0), 58, entry(58))
    check.finish(LogOffset(57_000))
    assert [(item.kind, item.at) for item in report.findings] == [
        (Kind.QUEUE_ENTRY_DANGLING, 57),
        (Kind.QUEUE_ENTRY_DANGLING, 59),
    ]


def test_a_topic_in_a_record_leads_to_no_file_outside(tmp_path: Path) -> None:
    layout, report = StoreLayout(tmp_path / "store"), Report()
    write_queue(StoreLayout(tmp_path), "x", 0, 3)
    check = QueueCheck(Disk(), layout, report)
    check.expect(("../../consumequeue/x", 0), 0, entry(0))
    assert report.counts == {Kind.QUEUE_ENTRY_MISSING: 1}


def test_only_numbers_below_topics_are_queues(tmp_path: Path) -> None:
    layout = StoreLayout(tmp_path)
    write_queue(layout, "a", 0, 1)
    (layout.queues / "a" / "notes").mkdir()
    (layout.queues / "file").touch()
    assert list(queues_on_disk(Disk(), layout)) == [(("a", 0), layout.queues / "a" / "0")]
