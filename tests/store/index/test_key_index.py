from __future__ import annotations

import errno
import random
from datetime import UTC
from pathlib import Path

import pytest

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.errors import IndexDamaged
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.index.entries import key_hash
from rocketpipe.store.index.key_index import KeyIndex
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.simulation.disk import SimDisk

ROOT = Path("/store")
DIRECTORY = ROOT / "index"
SUMS = ROOT / "sums" / "index.json"
NOW_MS = 1_700_000_000_123
KEYS = ["a", "b", "c", "d", "e"]
FILE_BYTES = 40 + 4 * 5 + 20 * 20


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory(SUMS.parent)
    return disk


def new_index(disk: SimDisk) -> KeyIndex:
    return KeyIndex(
        disk,
        OpenFiles(disk, 3),
        DIRECTORY,
        SUMS,
        slots=5,
        entries=20,  # 19 of them can be used
        clock=ManualClock(NOW_MS),
        zone=UTC,
    )


def keys_of(number: int) -> list[str]:
    """Up to three keys, different for each record."""
    chance = random.Random(number)
    return chance.sample(KEYS, chance.randrange(4))


def dispatch(index: KeyIndex, start: int, end: int) -> None:
    for number in range(start // 100, end // 100):
        hashes = [key_hash("T", key) for key in keys_of(number)]
        index.put(LogOffset(number * 100), NOW_MS + number * 500, hashes)
    index.holds_to = LogOffset(max(index.holds_to, end))


def expect(index: KeyIndex, end: int) -> None:
    for key in KEYS:
        wanted = [n * 100 for n in reversed(range(end // 100)) if key in keys_of(n)]
        assert list(index.find("T", key)) == wanted
    assert list(index.find("T", "never")) == []
    assert list(index.find("U", "a")) == []


def recovered(disk: SimDisk, end: int, *, clean: bool) -> tuple[KeyIndex, LogOffset]:
    index = new_index(disk)
    return index, index.recover(LogOffset(0), LogOffset(end), LogOffset(0), clean=clean)


def index_files(disk: SimDisk) -> dict[str, bytes]:
    return {path.name: disk.content(path) for path in disk.files() if path.parent == DIRECTORY}


def test_keys_are_found_over_many_files_newest_first(disk: SimDisk) -> None:
    index = new_index(disk)
    dispatch(index, 0, 10_000)
    assert len(index_files(disk)) >= 5
    expect(index, 10_000)
    index.flush_pending()
    expect(index, 10_000)


def test_there_is_no_limit_to_what_is_found(disk: SimDisk) -> None:
    index = new_index(disk)
    for number in range(500):
        index.put(LogOffset(number * 100), NOW_MS, [key_hash("T", "same")])
    assert len(list(index.find("T", "same"))) == 500


def test_files_are_named_for_when_they_were_made_and_stay_in_order(disk: SimDisk) -> None:
    dispatch(new_index(disk), 0, 10_000)
    names = sorted(index_files(disk))
    assert names[0] == "20231114221320123"
    assert names[1] == "20231114221320124"  # the clock stood still
    assert all(len(name) == 17 for name in names)


def test_a_time_range_leaves_out_the_rest(disk: SimDisk) -> None:
    index = new_index(disk)
    dispatch(index, 0, 10_000)
    begin, end = NOW_MS + 20_000, NOW_MS + 30_000
    first_second = {file.begin_offset + more for file in index._list for more in (0, 100)}
    for key in KEYS:
        found = list(index.find("T", key, begin, end))
        exact = [n * 100 for n in reversed(range(40, 61)) if key in keys_of(n)]
        assert [offset for offset in found if 4_000 <= offset <= 6_000] == exact
        # A file's first second may be earlier than it seems: whoever reads the record knows.
        others = [offset for offset in found if offset - offset % 100 not in first_second]
        assert all(3_700 <= offset <= 6_300 for offset in others)


def test_to_put_again_changes_nothing(disk: SimDisk) -> None:
    index = new_index(disk)
    dispatch(index, 0, 3_000)
    dispatch(index, 0, 3_000)
    expect(index, 3_000)
    last = LogOffset(2_900)
    index.holds_to = last
    index.put(last, NOW_MS, [key_hash("T", key) for key in keys_of(29)])
    expect(index, 3_000)


@pytest.mark.parametrize("clean", [True, False])
def test_an_index_is_taken_over_after_a_sync(disk: SimDisk, clean: bool) -> None:
    index = new_index(disk)
    dispatch(index, 0, 8_000)
    index.sync(closing=clean)
    before = index_files(disk)
    again, start = recovered(disk, 8_000, clean=clean)
    assert start == 8_000
    expect(again, 8_000)
    again.sync()
    assert index_files(disk) == before
    dispatch(again, 8_000, 10_000)
    expect(again, 10_000)
    fresh = SimDisk()
    fresh.make_directory(SUMS.parent)
    whole = new_index(fresh)
    dispatch(whole, 0, 10_000)
    whole.sync()
    again.sync()
    assert list(index_files(disk).values()) == list(index_files(fresh).values())


@pytest.mark.parametrize("seed", range(40))
def test_after_a_crash_nothing_is_missing_or_doubled(seed: int) -> None:
    chance = random.Random(seed)
    disk = SimDisk(seed)
    disk.make_directory(SUMS.parent)
    index = new_index(disk)
    at = 0
    for _ in range(chance.randrange(1, 12)):
        end = min(20_000, at + 100 * chance.randrange(25))
        dispatch(index, at, end)
        at = end
        match chance.randrange(3):
            case 0:
                index.flush_pending()
            case 1:
                index.sync()
    synced = index.synced_to
    if chance.randrange(2):
        disk.crash()
    else:
        disk.kill()
    again, start = recovered(disk, at, clean=False)
    assert start >= synced
    expect(again, start)
    dispatch(again, start, 20_000)
    expect(again, 20_000)
    again.sync(closing=True)
    third, start = recovered(disk, 20_000, clean=True)
    assert start == 20_000
    expect(third, 20_000)


@pytest.mark.parametrize("end", [0, 100, 1_000, 3_300, 7_900])
def test_a_log_that_came_back_shorter_cuts_the_index(disk: SimDisk, end: int) -> None:
    index = new_index(disk)
    dispatch(index, 0, 8_000)
    index.sync(closing=True)
    again, start = recovered(disk, end, clean=False)
    assert start <= end
    expect(again, end)
    dispatch(again, start, 9_000)
    expect(again, 9_000)


@pytest.mark.parametrize("end", [0, 1_000, 5_000, 8_000])
def test_truncating_is_durable(disk: SimDisk, end: int) -> None:
    index = new_index(disk)
    dispatch(index, 0, 8_000)
    index.truncate(LogOffset(end), LogOffset(0))
    expect(index, end)
    disk.crash()
    again, _ = recovered(disk, end, clean=False)
    expect(again, end)


def test_files_that_were_not_synced_by_another_broker_are_written_again(disk: SimDisk) -> None:
    index = new_index(disk)
    dispatch(index, 0, 8_000)
    index.sync()
    disk.remove(SUMS)
    again = new_index(disk)
    safe_ms = NOW_MS + 40 * 500
    start = again.recover(
        LogOffset(0), LogOffset(8_000), LogOffset(8_000), clean=False, safe_ms=safe_ms
    )
    assert 0 < start <= 4_000
    dispatch(again, start, 8_000)
    expect(again, 8_000)


def test_files_that_another_broker_left_cleanly_are_believed(disk: SimDisk) -> None:
    index = new_index(disk)
    dispatch(index, 0, 8_000)
    index.sync()
    disk.remove(SUMS)
    again = new_index(disk)
    end = LogOffset(8_000)
    assert again.recover(LogOffset(0), end, end, clean=True) == 8_000
    expect(again, 8_000)
    dispatch(again, 8_000, 9_000)
    expect(again, 9_000)


def test_files_of_another_size_are_opened_with_the_size_they_have(disk: SimDisk) -> None:
    index = new_index(disk)
    dispatch(index, 0, 3_000)
    index.sync(closing=True)
    other = KeyIndex(
        disk,
        OpenFiles(disk, 3),
        DIRECTORY,
        SUMS,
        slots=50,
        entries=200,
        clock=ManualClock(NOW_MS),
        zone=UTC,
    )
    assert other.recover(LogOffset(0), LogOffset(3_000), LogOffset(0), clean=True) == 3_000
    expect(other, 3_000)
    dispatch(other, 3_000, 9_000)
    expect(other, 9_000)
    assert {len(data) for data in index_files(disk).values()} == {FILE_BYTES, 40 + 84 * 50}


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("kind", ["missing", "flipped", "short", "long", "garbage"])
def test_a_damaged_file_is_written_again(disk: SimDisk, number: int, kind: str) -> None:
    index = new_index(disk)
    dispatch(index, 0, 8_000)
    index.sync(closing=True)
    path = DIRECTORY / sorted(index_files(disk))[number]
    data = disk.content(path)
    match kind:
        case "missing":
            disk.remove(path)
        case "flipped":
            disk.flip(path, 8 * 200)
        case "short":
            disk.put(path, data[:-1])
        case "long":
            disk.put(path, data + b"\0")
        case "garbage":
            disk.put(path, random.Random(1).randbytes(len(data)))
    again, start = recovered(disk, 8_000, clean=True)
    dispatch(again, start, 8_000)
    try:
        expect(again, 8_000)
    except IndexDamaged as damage:
        # What opening did not look at is noticed when it is read.
        assert kind == "flipped"
        start = again.drop_from(damage.path, LogOffset(0))
        dispatch(again, start, 8_000)
        expect(again, 8_000)
    else:
        assert start < 8_000


def test_files_go_with_the_log_but_never_the_last(disk: SimDisk) -> None:
    index = new_index(disk)
    dispatch(index, 0, 8_000)
    many = len(index_files(disk))
    removed = index.delete_before(LogOffset(4_000))
    assert 0 < removed < many
    for key in KEYS:
        wanted = [n * 100 for n in reversed(range(40, 80)) if key in keys_of(n)]
        assert [at for at in index.find("T", key) if at >= 4_000] == wanted
    index.delete_before(LogOffset(1 << 40))
    assert len(index_files(disk)) == 1
    index.sync()
    again, start = recovered(disk, 8_000, clean=True)
    assert start == 8_000
    assert list(again.find("T", "a"))


@pytest.mark.parametrize("seed", range(10))
def test_files_that_went_with_the_log_are_not_missed_after_a_crash(seed: int) -> None:
    disk = SimDisk(seed)
    disk.make_directory(SUMS.parent)
    index = new_index(disk)
    dispatch(index, 0, 8_000)
    index.sync()
    index.delete_before(LogOffset(4_000))
    kept = index_files(disk)
    disk.crash()
    again = new_index(disk)
    start = again.recover(LogOffset(4_000), LogOffset(8_000), LogOffset(4_000), clean=False)
    assert start == 8_000
    assert set(index_files(disk)) == set(kept)


def test_a_full_disk_loses_nothing(disk: SimDisk) -> None:
    index = new_index(disk)
    dispatch(index, 0, 1_000)
    disk.fail(only={"write"}, errno=errno.ENOSPC)
    with pytest.raises(DiskError):
        index.flush_pending()
    index.flush_pending()
    expect(index, 1_000)


def test_a_file_that_cannot_be_made_stops_the_record_and_no_key_is_doubled(disk: SimDisk) -> None:
    index = new_index(disk)
    for number in range(18):
        index.put(LogOffset(number * 100), NOW_MS, [key_hash("T", "x")])
    disk.fail(only={"create"}, errno=errno.ENOSPC)
    three = [key_hash("T", key) for key in ("p", "q", "r")]
    with pytest.raises(DiskError):
        index.put(LogOffset(1800), NOW_MS, three)
    index.put(LogOffset(1800), NOW_MS, three)
    for key in ("p", "q", "r"):
        assert list(index.find("T", key)) == [1800]
