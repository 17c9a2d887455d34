"""What is kept of the queues' files for the next opening."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.queues.consume_queue import ConsumeQueue
from rocketpipe.store.queues.entries import QUEUE_ENTRY
from rocketpipe.store.queues.queue_files import FileSum
from rocketpipe.store.queues.queue_sums import QueueSums
from rocketpipe.testing.simulation.disk import SimDisk

SUMS = Path("/store/sums/queues.json")


def entries(first: int, end: int) -> bytes:
    return b"".join(QUEUE_ENTRY.pack(100 * number, 100, 7) for number in range(first, end))


def queue(disk: SimDisk, name: str, count: int) -> ConsumeQueue:
    made = ConsumeQueue(disk, OpenFiles(disk, 4), Path(f"/store/{name}"), 200)
    made.append(entries(0, count), QueueOffset(0))
    if count:
        made.sync()
    return made


def test_what_was_saved_is_loaded() -> None:
    disk = SimDisk()
    queues = {("a", 0): queue(disk, "a", 13), ("b", 3): queue(disk, "b", 0)}
    sums = QueueSums(disk, SUMS)
    assert sums.load() is None
    sums.save(sums.text(LogOffset(77), queues))
    known = QueueSums(disk, SUMS).load()
    assert known is not None
    assert known[0] == 77
    assert known[1] == {("a", 0): (13, queues["a", 0].sums()), ("b", 3): (0, [])}
    assert [(each.base, each.count) for each in known[1]["a", 0][1]] == [(0, 10), (200, 3)]


def test_only_queues_that_changed_are_described_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk()
    queues = {(name, 0): queue(disk, name, 5) for name in "abc"}
    sums = QueueSums(disk, SUMS)
    before = json.loads(sums.text(LogOffset(1), queues))
    asked: list[ConsumeQueue] = []
    ask = ConsumeQueue.sums

    def watched(self: ConsumeQueue) -> list[FileSum]:
        asked.append(self)
        return ask(self)

    monkeypatch.setattr(ConsumeQueue, "sums", watched)
    assert json.loads(sums.text(LogOffset(1), queues)) == before
    assert asked == []
    queues["b", 0].append(entries(5, 6), QueueOffset(5))
    queues["b", 0].sync()
    sums.changed(("b", 0))
    queues["d", 0] = queue(disk, "d", 2)
    after = json.loads(sums.text(LogOffset(2), queues))
    assert set(asked) == {queues["b", 0], queues["d", 0]}
    assert after["holds_to"] == 2
    assert sorted(each[:3] for each in after["queues"]) == [
        ["a", 0, 5],
        ["b", 0, 6],
        ["c", 0, 5],
        ["d", 0, 2],
    ]


def test_checksums_that_cannot_be_read_are_none(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    disk.make_directory(SUMS.parent)
    disk.put(SUMS, b"{")
    assert QueueSums(disk, SUMS).load() is None
    assert "checksums of the queues are gone" in caplog.text
