from __future__ import annotations

import random
from pathlib import Path
from struct import Struct

import pytest

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.errors import IndexDamaged
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.index import index_file
from rocketpipe.store.index.index_file import IndexFile
from rocketpipe.store.index.layout import IndexSums, file_bytes
from rocketpipe.testing.simulation.disk import SimDisk

PATH = Path("/index/20231114221320000")
SLOTS, ENTRIES = 7, 40
NOW_MS = 1_700_000_000_000
EVER = 1 << 62
HEADER = Struct(">qqqqii")
ENTRY = Struct(">iqii")


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory(PATH.parent)
    return disk


def new_file(disk: SimDisk) -> IndexFile:
    return IndexFile(OpenFiles(disk, 2), PATH, SLOTS, ENTRIES)


def made(disk: SimDisk, behind: IndexFile | None = None) -> IndexFile:
    file = new_file(disk)
    file.create(behind)
    return file


def hashes(count: int) -> list[int]:
    chance = random.Random(5)
    return [chance.choice([3, 10, 17, 4, 100, 0x7FFFFFFF]) for _ in range(count)]


def fill(file: IndexFile, count: int, first: int = 0) -> None:
    for number in range(first, count):
        file.put(hashes(count)[number], number * 100, NOW_MS + number * 700)


def expected(key_hash: int, count: int) -> list[int]:
    return [n * 100 for n in reversed(range(count)) if hashes(count)[n] == key_hash]


def test_a_file_is_header_slots_and_entries(disk: SimDisk) -> None:
    file = made(disk)
    file.put(10, 500, NOW_MS)
    file.put(4, 600, NOW_MS + 1999)
    file.put(17, 700, NOW_MS + 2000)  # the slot of 10
    file.sync()
    data = disk.content(PATH)
    assert len(data) == file_bytes(SLOTS, ENTRIES) == 40 + 4 * 7 + 20 * 40
    assert HEADER.unpack_from(data) == (NOW_MS, NOW_MS + 2000, 500, 700, 2, 4)
    assert [int.from_bytes(data[40 + 4 * n : 44 + 4 * n], "big") for n in range(7)] == [
        *(0, 0, 0, 3, 2, 0, 0)
    ]
    assert [ENTRY.unpack_from(data, 68 + 20 * n) for n in range(4)] == [
        (0, 0, 0, 0),
        (10, 500, 0, 0),
        (4, 600, 1, 0),
        (17, 700, 2, 1),
    ]
    assert not any(data[68 + 80 :])


def test_a_file_starts_where_the_one_before_it_ended(disk: SimDisk) -> None:
    first = made(disk)
    fill(first, 5)
    second = IndexFile(OpenFiles(disk, 2), PATH.with_name("20231114221320001"), SLOTS, ENTRIES)
    second.create(first)
    assert second.begin_ms == second.end_ms == first.end_ms
    assert second.begin_offset == second.end_offset == first.end_offset
    # The file says so at once, for an Apache broker that comes after a kill.
    assert disk.content(second.path)[: HEADER.size] == second.header()
    second.put(3, 900, first.end_ms + 5000)
    assert (second.begin_ms, second.begin_offset) == (first.end_ms + 5000, 900)
    second.sync()
    assert ENTRY.unpack_from(disk.content(second.path), 68 + 20)[2] == 5


def test_it_is_full_when_the_last_number_was_given(disk: SimDisk) -> None:
    file = made(disk)
    fill(file, ENTRIES - 1)
    assert file.full
    with pytest.raises(AssertionError):
        file.put(1, 1, 1)


@pytest.mark.parametrize("count", [0, 1, 2, 10, 39])
@pytest.mark.parametrize("state", ["waiting", "written", "closed", "loaded"])
def test_entries_are_found_newest_first(disk: SimDisk, count: int, state: str) -> None:
    file = made(disk)
    fill(file, count)
    if state != "waiting":
        file.sync()
    if state == "closed":
        file.close_table()
    if state == "loaded":
        file = new_file(disk)
        file.load(None, clean=True, write=False, log_end=1 << 40)
    for key_hash in (3, 10, 17, 4, 100, 0x7FFFFFFF, 5):
        assert list(file.find(key_hash, 0, EVER)) == expected(key_hash, count)


def test_a_time_range_is_kept_to_the_second(disk: SimDisk) -> None:
    file = made(disk)
    fill(file, 30)
    for begin in range(NOW_MS - 1000, NOW_MS + 22_000, 650):
        for length in (0, 100, 5000):
            found = set(file.find(3, begin, begin + length))
            exact = {
                n * 100
                for n in range(30)
                if hashes(30)[n] == 3 and begin <= NOW_MS + n * 700 <= begin + length
            }
            near = {
                n * 100
                for n in range(30)
                if hashes(30)[n] == 3 and begin - 1000 <= NOW_MS + n * 700 <= begin + length + 1000
            }
            assert exact <= found <= near


def loaded(
    disk: SimDisk, sums: IndexSums | None, *, clean: bool, log_end: int = 1 << 40
) -> IndexFile:
    file = new_file(disk)
    file.load(sums, clean=clean, write=True, log_end=log_end)
    return file


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("summed", [True, False])
def test_a_file_is_written_on_after_it_was_loaded(disk: SimDisk, clean: bool, summed: bool) -> None:
    file = made(disk)
    fill(file, 20)
    file.sync()
    sums = file.sums(slots=clean)
    again = loaded(disk, sums if summed else None, clean=clean)
    assert again.count == 21
    for number in range(20, 39):
        again.put(hashes(39)[number], number * 100, NOW_MS + number * 700)
    again.sync()
    fresh = SimDisk()
    fresh.make_directory(PATH.parent)
    whole = made(fresh)
    fill(whole, 39)
    whole.sync()
    if hashes(39)[:20] == hashes(20):
        assert disk.content(PATH) == fresh.content(PATH)
    assert again.sums(slots=True) == whole.sums(slots=True)


@pytest.mark.parametrize("kept", range(21))
def test_entries_of_records_that_are_gone_are_dropped(disk: SimDisk, kept: int) -> None:
    file = made(disk)
    fill(file, 20)
    file.sync()
    again = loaded(disk, file.sums(slots=True), clean=False, log_end=kept * 100)
    assert again.count == kept + 1
    for key_hash in set(hashes(20)):
        wanted = [offset for offset in expected(key_hash, 20) if offset < kept * 100]
        assert list(again.find(key_hash, 0, EVER)) == wanted
    if kept:
        assert again.end_offset == (kept - 1) * 100
        assert again.begin_ms <= NOW_MS + (kept - 1) * 700 <= again.end_ms
    again.sync()
    assert not any(disk.content(PATH)[68 + 20 * (kept + 1) :])


def test_what_was_written_after_the_sums_is_dropped(disk: SimDisk) -> None:
    file = made(disk)
    fill(file, 10)
    file.sync()
    sums = file.sums(slots=False)
    before = disk.content(PATH)
    for number in range(10, 30):
        file.put(3, number * 100, NOW_MS + number * 700)
    file.write()
    disk.kill()
    again = loaded(disk, sums, clean=False)
    again.sync()
    assert disk.content(PATH) == before


@pytest.mark.parametrize("writing", [True, False])
@pytest.mark.parametrize("clean", [True, False])
def test_whatever_byte_of_a_file_has_changed_nothing_wrong_is_found(
    disk: SimDisk, clean: bool, writing: bool
) -> None:
    file = made(disk)
    fill(file, 20)
    file.sync()
    sums = file.sums(slots=True)
    data = disk.content(PATH)
    chance = random.Random(3)
    used = 68 + 20 * 21
    for at in range(used + 5):
        other = bytearray(data)
        other[at] ^= chance.randrange(1, 256)
        disk.put(PATH, bytes(other))
        _judge(disk, sums, clean=clean, writing=writing)
    for length in range(0, len(data) + 2, 3):
        disk.put(PATH, (data + b"xx")[:length])
        if length != len(data):
            with pytest.raises(IndexDamaged):
                loaded(disk, sums, clean=clean)


def _judge(disk: SimDisk, sums: IndexSums, *, clean: bool, writing: bool) -> None:
    file = new_file(disk)
    try:
        file.load(sums, clean=clean, write=writing, log_end=1 << 40)
        for key_hash in set(hashes(20)):
            assert list(file.find(key_hash, 0, EVER)) == expected(key_hash, 20)
    except IndexDamaged:
        pass


def test_damage_in_a_file_without_sums_never_loops_or_leaves_the_file(disk: SimDisk) -> None:
    file = made(disk)
    fill(file, 20)
    file.sync()
    data = disk.content(PATH)
    chance = random.Random(4)
    for at in range(68 + 20 * 21):
        other = bytearray(data)
        other[at] ^= chance.randrange(1, 256)
        disk.put(PATH, bytes(other))
        again = new_file(disk)
        try:
            again.load(None, clean=True, write=True, log_end=1 << 40)
            for key_hash in (3, 10, 17, 4, 100):
                found = list(again.find(key_hash, 0, EVER))
                assert len(found) <= 20
                assert found == sorted(found, reverse=True)
        except IndexDamaged:
            pass


def test_the_entries_of_the_last_message_are_counted(disk: SimDisk) -> None:
    file = made(disk)
    assert file.keys_of_last() == 0
    for offset in (100, 200, 200, 200):
        file.put(3, offset, NOW_MS)
    assert file.keys_of_last() == 3
    assert list(file.find(3, 0, EVER)) == [LogOffset(200)] * 3 + [LogOffset(100)]


def test_blocks_are_checked_on_their_own(disk: SimDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_file, "BLOCK_ENTRIES", 8)
    monkeypatch.setattr(index_file, "_BLOCK_BYTES", 160)
    file = made(disk)
    for number in range(30):
        file.put(number, number * 100, NOW_MS)
        if number % 5 == 0:
            file.write()
    file.sync()
    sums = file.sums(slots=True)
    assert len(sums.entries) == 4
    good = loaded(disk, sums, clean=True)
    assert [list(good.find(number, 0, EVER)) for number in range(30)] == [
        [number * 100] for number in range(30)
    ]
    for clean in (True, False):
        assert loaded(disk, sums, clean=clean).sums(slots=True) == sums
    disk.flip(PATH, 8 * (68 + 20 * 20 + 13))  # the time of entry 20
    again = loaded(disk, sums, clean=True)
    assert next(again.find(27, 0, EVER)) == 2700
    with pytest.raises(IndexDamaged, match="block 2 of its entries"):
        list(again.find(19, 0, EVER))
