"""Index entries against what they should be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpipe.model.flags import Transaction, transaction_of
from rocketpipe.record.codec import RecordView
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.index.entries import INDEX_ENTRY, key_hashes
from rocketpipe.store.upkeep.findings import Kind, Report
from rocketpipe.store.upkeep.index_check import HEAD, IndexCheck
from rocketpipe.store.upkeep.log_scan import LogFiles, Scanned, scan

SLOTS = 500
ENTRIES_AT = HEAD.size + 4 * SLOTS


@pytest.fixture
def store(tmp_path: Path, unpack_golden: Callable[..., Path]) -> Path:
    return unpack_golden("4.9.7-stop", tmp_path)


def index_file(store: Path) -> Path:
    (path,) = (store / "index").iterdir()
    return path


def add_entry(path: Path, hashed: int, log_offset: int, seconds: int = 0) -> None:
    """Append an entry, and have its slot lead to it, as a broker does."""
    data = bytearray(path.read_bytes())
    head = list(HEAD.unpack_from(data))
    slot_at = HEAD.size + 4 * (hashed % SLOTS)
    before = int.from_bytes(data[slot_at : slot_at + 4], "big")
    INDEX_ENTRY.pack_into(data, ENTRIES_AT + 20 * head[5], hashed, log_offset, seconds, before)
    data[slot_at : slot_at + 4] = head[5].to_bytes(4, "big")
    head[5] += 1
    HEAD.pack_into(data, 0, *head)
    path.write_bytes(data)


def checked(store: Path, slots: int | None = None) -> Report:
    report = Report()
    with (
        LogFiles(Disk(), store / "commitlog") as files,
        LogFiles(Disk(), store / "commitlog") as again,
    ):
        check = IndexCheck(Disk(), store / "index", again, report, slots)
        for item in scan(files):
            assert isinstance(item, Scanned)
            view = RecordView(item.record)
            assert transaction_of(view.sys_flag) is not Transaction.ROLLED_BACK
            check.expect(item.at, view.stored_ms, key_hashes(view.topic, view.raw_properties))
        check.finish()
    return report


def first_entry(path: Path) -> tuple[int, int, int, int]:
    return INDEX_ENTRY.unpack_from(path.read_bytes(), ENTRIES_AT + 20)  # type: ignore[return-value]


def test_apaches_index_is_right_by_either_way_to_tell_its_slots(store: Path) -> None:
    assert checked(store).ok
    assert checked(store, SLOTS).ok
    assert checked(store, SLOTS + 1).counts[Kind.ODD_FILE] == 1


def test_a_record_that_was_indexed_again_after_a_crash_is_no_finding(store: Path) -> None:
    path = index_file(store)
    hashed, log_offset, seconds, _ = first_entry(path)
    add_entry(path, hashed, log_offset, seconds)
    report = checked(store)
    assert report.ok
    assert report.index_entries == 1039


def take_last_entry(path: Path) -> tuple[int, int, int]:
    """Remove the last entry as if it had never been made, and give it."""
    data = bytearray(path.read_bytes())
    head = list(HEAD.unpack_from(data))
    head[5] -= 1
    hashed, log_offset, seconds, before = INDEX_ENTRY.unpack_from(data, ENTRIES_AT + 20 * head[5])
    slot_at = HEAD.size + 4 * (hashed % SLOTS)
    data[slot_at : slot_at + 4] = before.to_bytes(4, "big")
    HEAD.pack_into(data, 0, *head)
    path.write_bytes(data)
    return hashed, log_offset, seconds


def test_a_record_that_was_indexed_again_after_some_of_its_keys_is_no_finding(store: Path) -> None:
    path = index_file(store)
    behind = [take_last_entry(path), take_last_entry(path)]
    while behind[-1][1] != behind[-2][1]:
        behind.append(take_last_entry(path))
    first, second, *others = reversed(behind)
    for entry in (first, first, second, *others):
        add_entry(path, *entry)
    report = checked(store)
    assert report.ok, report.lines()
    assert report.index_entries == 1039
    for _ in (second, *others):
        take_last_entry(path)
    for entry in others:
        add_entry(path, *entry)
    assert checked(store).counts == {Kind.INDEX_ENTRY_MISSING: 1}


@pytest.mark.parametrize(
    ("hash_step", "offset_step", "seconds_step"), [(1, 0, 0), (0, 7, 0), (0, 1 << 30, 0), (0, 0, 9)]
)
def test_an_entry_that_no_record_could_have_is_wrong(
    store: Path, hash_step: int, offset_step: int, seconds_step: int
) -> None:
    path = index_file(store)
    hashed, log_offset, seconds, _ = first_entry(path)
    add_entry(path, hashed + hash_step, log_offset + offset_step, seconds + seconds_step)
    report = checked(store)
    assert report.counts == {Kind.INDEX_ENTRY_WRONG: 1}
    assert report.findings[0].at == 1039


def test_a_count_beyond_the_file_and_other_files_are_odd(store: Path) -> None:
    path = index_file(store)
    data = bytearray(path.read_bytes())
    HEAD.pack_into(data, 0, *(*HEAD.unpack_from(data)[:5], 2001))
    path.write_bytes(data)
    (store / "index" / "notes").touch()
    report = checked(store)
    assert report.counts[Kind.ODD_FILE] == 2
    assert report.counts[Kind.INDEX_ENTRY_MISSING] == 1038
