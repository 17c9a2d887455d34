"""A store looked through in parts, held against the look from one end to the other."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpipe.store.files.disk import Disk
from rocketpipe.store.upkeep.check import check_store
from rocketpipe.store.upkeep.check_parts import check_in_parts, in_this_process
from rocketpipe.store.upkeep.findings import KEPT_OF_A_KIND, Kind, Report
from rocketpipe.store.upkeep.log_scan import LogFiles, Scanned, scan

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


def both(store: Path) -> Report:
    """What parts find, once it is seen to be what the whole finds."""
    whole = check_store(Disk(), store)
    parts = check_in_parts(Disk(), store, in_this_process(Disk()))
    assert parts.lines()[0] == whole.lines()[0]
    assert parts.counts == whole.counts
    assert parts.left_over == whole.left_over
    assert told(parts) == told(whole)
    return parts


def told(report: Report) -> list[str]:
    """Findings of which all are kept: of many, the first are, and the order is each one's own."""
    return sorted(
        str(each) for each in report.findings if report.counts[each.kind] <= KEPT_OF_A_KIND
    )


@pytest.mark.parametrize("name", ["4.9.7-stop", "4.9.7-kill", "5.5.0-stop", "5.5.0-kill"])
def test_parts_of_a_good_store_are_good(
    tmp_path: Path, unpack_golden: Callable[..., Path], name: str
) -> None:
    assert both(unpack_golden(name, tmp_path)).ok


def test_a_gap_over_the_end_of_a_segment_is_one_gap(store: Path) -> None:
    found = records(store)
    second = next(item for item in found if item.at >= SEGMENT)
    last = [item for item in found if item.at < SEGMENT][-1]
    patch(segment_of(store, last.at), last.at % SEGMENT + 20, b"\xff" * 40)
    patch(segment_of(store, second.at), 0, b"\xff" * 500)
    assert both(store).counts[Kind.BAD_RECORD] == 1


def test_a_segment_of_zeros_in_the_middle_is_a_gap(store: Path) -> None:
    second = segment_of(store, SEGMENT)
    second.write_bytes(bytes(SEGMENT))
    assert both(store).counts[Kind.BAD_RECORD] == 1


def test_a_queue_that_goes_back_over_a_segment_is_told_for_each_message(store: Path) -> None:
    found = records(store)
    late = next(item for item in found if item.at >= SEGMENT)
    # What it says of its place in the queue is not under Apache's checksum of the body.
    patch(segment_of(store, late.at), late.at % SEGMENT + 20, (1 << 40).to_bytes(8, "big"))
    counts = both(store).counts
    assert counts[Kind.OFFSETS_MISSING] or counts[Kind.OFFSETS_REPEATED]


def test_an_index_entry_that_leads_far_ahead_hides_those_behind_it(store: Path) -> None:
    file = next(iter(sorted((store / "index").iterdir())))
    slots = (file.stat().st_size - 40) // 84
    patch(file, 40 + 4 * slots + 20 * 50 + 4, (1 << 40).to_bytes(8, "big"))
    assert both(store).counts[Kind.INDEX_ENTRY_WRONG] == 1


def test_files_that_are_no_log_are_told(store: Path) -> None:
    segment_of(store, SEGMENT).unlink()
    assert both(store).counts == {Kind.ODD_FILE: 1}


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_broken_both_find_the_same(store: Path, seed: int) -> None:
    chance = random.Random(seed)
    files = [
        path
        for path in sorted(store.rglob("*"))
        if path.is_file() and path.parts[len(store.parts)] in ("commitlog", "consumequeue", "index")
    ]
    if chance.random() < 0.3:
        (store / "abort").touch()
    for _ in range(chance.choice([1, 3, 10])):
        path = chance.choice(files)
        size = path.stat().st_size
        at = chance.randrange(size)
        length = chance.choice([1, 8, 200, 5000])
        fill = chance.choice([b"\0", b"\xff", b"\x07"])
        patch(path, at, (fill * length)[: size - at])
    both(store)
