"""A store looked through as a whole."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.state.checkpoint import Checkpoint
from rocketpipe.store.upkeep.check import check_store
from rocketpipe.store.upkeep.findings import Kind, Report
from rocketpipe.store.upkeep.log_scan import LogFiles, Scanned, scan
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.small_store import ROOT, message, open_store

SEGMENT = 65536


@pytest.fixture
def store(tmp_path: Path, unpack_golden: Callable[..., Path]) -> Path:
    return unpack_golden("5.5.0-stop", tmp_path)


def records(store: Path) -> list[Scanned]:
    with LogFiles(Disk(), store / "commitlog") as files:
        return [item for item in scan(files) if isinstance(item, Scanned)]


def patch(path: Path, at: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + len(data)] = data
    path.write_bytes(content)


def segment_of(store: Path, at: int) -> Path:
    return store / "commitlog" / f"{at - at % SEGMENT:020d}"


def checked(store: Path) -> Report:
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    report = check_store(Disk(), store)
    after = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    assert before == after, "a check changes nothing"
    return report


@pytest.mark.parametrize(
    ("name", "count", "entries", "clean"),
    [
        ("4.9.7-stop", 394, 1038, True),
        ("4.9.7-kill", 394, 1038, False),
        ("5.5.0-stop", 395, 1395, True),
        ("5.5.0-kill", 393, 1391, False),
    ],
)
def test_nothing_is_wrong_with_the_stores_of_apaches_brokers(
    tmp_path: Path,
    unpack_golden: Callable[..., Path],
    name: str,
    count: int,
    entries: int,
    clean: bool,
) -> None:
    report = checked(unpack_golden(name, tmp_path))
    assert report.ok, report.lines()
    assert (report.records, report.queue_entries) == (count, count)
    assert report.index_entries == entries
    assert report.clean_stop is clean
    assert report.unsealed == count


def test_a_damaged_body_is_a_bad_record_and_a_message_that_its_queue_misses(store: Path) -> None:
    bad = records(store)[100]
    patch(segment_of(store, bad.at), bad.at % SEGMENT + 90, b"\xff\x00\xff")
    report = checked(store)
    assert report.counts[Kind.BAD_RECORD] == 1
    assert report.counts[Kind.OFFSETS_MISSING] == 1
    assert not report.log_ok
    finding = next(item for item in report.findings if item.kind is Kind.BAD_RECORD)
    assert finding.file == segment_of(store, bad.at)
    assert finding.at == bad.at


def test_a_cut_last_record_is_a_torn_tail_and_its_entries_dangle(store: Path) -> None:
    last = records(store)[-1]
    patch(segment_of(store, last.at), last.at % SEGMENT + 90, bytes(len(last.record) - 90))
    counts = checked(store).counts
    assert counts[Kind.TORN_TAIL] == 1
    assert counts[Kind.QUEUE_ENTRY_DANGLING] == 1
    assert counts[Kind.INDEX_ENTRY_WRONG] == 2
    assert Kind.BAD_RECORD not in counts


def test_a_changed_queue_entry_is_found_wherever_it_changed(store: Path) -> None:
    path = store / "consumequeue" / "orders" / "2" / f"{0:020d}"
    for byte in (3, 9, 15):
        patch(path, 20 * 7 + byte, b"\x55")
        report = checked(store)
        assert report.counts == {Kind.QUEUE_ENTRY_WRONG: 1}
        assert (report.findings[0].file, report.findings[0].at) == (path.parent, 7)
        assert report.log_ok


def test_missing_queue_entries_are_counted_one_by_one(store: Path) -> None:
    patch(store / "consumequeue" / "orders" / "1" / f"{0:020d}", 20 * 80, bytes(20 * 3))
    assert checked(store).counts == {Kind.QUEUE_ENTRY_MISSING: 3}
    shutil.rmtree(store / "consumequeue" / "log")
    assert checked(store).counts == {Kind.QUEUE_ENTRY_MISSING: 43}


def test_an_entry_behind_the_last_message_dangles(store: Path) -> None:
    path = store / "consumequeue" / "orders" / "1" / f"{0:020d}"
    patch(path, 20 * 83, path.read_bytes()[20 * 82 : 20 * 83])
    assert checked(store).counts == {Kind.QUEUE_ENTRY_DANGLING: 1}


def test_index_entries_are_held_against_keys_times_and_chains(store: Path) -> None:
    (path,) = (store / "index").iterdir()
    whole = path.read_bytes()
    entries_at = 40 + 4 * 500
    fifth = entries_at + 5 * 20
    patch(path, fifth, b"\x01\x02\x03\x04")  # another hash is in another slot too
    counts = checked(store).counts
    assert counts[Kind.INDEX_ENTRY_MISSING] >= 1
    assert counts[Kind.INDEX_ENTRY_WRONG] >= 1
    assert counts[Kind.INDEX_CHAIN_BROKEN] >= 1
    path.write_bytes(whole)
    patch(path, fifth + 12, b"\x00\x00\x10\x00")
    assert checked(store).counts == {Kind.INDEX_ENTRY_WRONG: 1}
    path.write_bytes(whole)
    patch(path, fifth + 16, b"\x00\x00\x00\x63")
    assert checked(store).counts == {Kind.INDEX_CHAIN_BROKEN: 1}
    path.write_bytes(whole)
    used = next(at for at in range(40, entries_at, 4) if whole[at : at + 4] != bytes(4))
    patch(path, used, bytes(4))
    assert checked(store).counts == {Kind.INDEX_CHAIN_BROKEN: 1}


def test_keys_without_any_index_are_missed(store: Path) -> None:
    shutil.rmtree(store / "index")
    report = checked(store)
    # 5.5.0 also has entries for tags, which nobody misses.
    assert report.counts.keys() == {Kind.INDEX_ENTRY_MISSING}
    assert 395 < report.counts[Kind.INDEX_ENTRY_MISSING] < 1395


def test_entries_of_messages_that_have_expired_are_no_finding(store: Path) -> None:
    for base in (0, SEGMENT, 2 * SEGMENT):
        (store / "commitlog" / f"{base:020d}").unlink()
    report = checked(store)
    assert report.ok, report.lines()
    assert report.first_offset == 3 * SEGMENT


def test_files_of_a_wrong_length_are_named(store: Path) -> None:
    queue_file = store / "consumequeue" / "log" / "0" / f"{2000:020d}"
    queue_file.write_bytes(bytes(2001))
    (index,) = (store / "index").iterdir()
    index.write_bytes(index.read_bytes()[:-1])
    report = checked(store)
    assert report.counts[Kind.ODD_FILE] == 2
    assert {item.file for item in report.findings if item.kind is Kind.ODD_FILE} == {
        queue_file,
        index,
    }
    segment = store / "commitlog" / f"{SEGMENT:020d}"
    segment.write_bytes(bytes(10))
    assert checked(store).counts == {Kind.ODD_FILE: 1}


def test_a_store_in_use_is_checked_up_to_where_it_may_be_read(store: Path) -> None:
    at = records(store)[200].at
    report = check_store(Disk(), store, end=at)
    assert report.records == 200
    assert report.log_ok


def test_a_checkpoint_beyond_the_log_is_found(store: Path) -> None:
    checkpoint = Checkpoint(Disk(), store / "checkpoint")
    end = checked(store).end_offset
    checkpoint.flushed(end, records(store)[-1].at, 1)
    assert checked(store).ok
    checkpoint.flushed(LogOffset(end + 200), end, 1)
    checkpoint.close()
    assert checked(store).counts == {Kind.CHECKPOINT_AHEAD: 1}


@pytest.mark.parametrize("synced", [0, 30, 60])
@pytest.mark.parametrize("dispatched", [0, 60, 75])
@pytest.mark.parametrize("end", ["kill", "crash"])
def test_what_a_kill_leaves_is_no_damage(synced: int, dispatched: int, end: str) -> None:
    disk = SimDisk(seed=synced + dispatched)
    store = open_store(disk)
    for number in range(75):
        store.append([[message(number), message(number + 1000)]])
        if number == synced:
            store.dispatch()
            store.flush()
            store.sync_derived()
        if number + 1 == dispatched:
            store.dispatch()
            store.derived.queues.flush_pending()
            store.derived.index.flush_pending()
    getattr(disk, end)()
    report = check_store(disk, ROOT)
    assert report.ok, report.lines()
    assert not report.clean_stop
    if end == "kill" and dispatched < 75:
        assert report.left_over[Kind.QUEUE_ENTRY_MISSING]
        assert "the next start puts it right" in "".join(report.lines())
    open_store(disk).close()
    after = check_store(disk, ROOT)
    assert after.ok, after.lines()
    assert not after.left_over


def test_damage_is_damage_after_a_kill_too() -> None:
    disk = SimDisk()
    store = open_store(disk)
    for number in range(75):
        store.append([[message(number)]])
        if number == 60:
            store.dispatch()
            store.flush()
            store.sync_derived()
    disk.kill()
    queue = min(path for path in disk.files() if "consumequeue" in path.parts)
    disk.flip(queue, 8 * 20 + 60)
    report = check_store(disk, ROOT)
    assert not report.ok
    assert report.counts == {Kind.QUEUE_ENTRY_WRONG: 1}
    assert report.left_over


def test_after_a_stop_in_order_nothing_may_be_missing() -> None:
    disk = SimDisk()
    store = open_store(disk)
    for number in range(20):
        store.append([[message(number)]])
    store.close()
    queue = min(path for path in disk.files() if "consumequeue" in path.parts)
    disk.remove(queue)
    report = check_store(disk, ROOT)
    assert report.counts[Kind.QUEUE_ENTRY_MISSING]
    assert not report.left_over
