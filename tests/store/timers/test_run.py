"""A run is what was written, in order; a merge is what counts of several."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.store.support.timer_parts import NOW_MS, ROOT, new_disk

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.timers.entry import ENTRY_BYTES, PLACE, Timed, forgotten
from rocketpipe.store.timers.run import BLOCK, RunDamaged, TimerMerge, TimerRun, read_run
from rocketpipe.testing.simulation.disk import SimDisk

NEVER = PLACE.pack(0, 0)
EVER = PLACE.pack(1 << 62, 0)


@pytest.fixture
def disk() -> SimDisk:
    return new_disk()


def timed(number: int, at_ms: int | None = None) -> Timed:
    at_ms = NOW_MS + number if at_ms is None else at_ms
    return Timed(
        due_ms=at_ms,
        log_offset=LogOffset(number * 100),
        size=100,
        queue_offset=QueueOffset(number),
        out_ms=NOW_MS,
        key=number,
        topic=1,
        stored_ms=NOW_MS - 1000 + number,
        origin=LogOffset(number * 100),
        at_ms=at_ms,
    )


def again(number: int, log_offset: int) -> bytes:
    """The entry of a message that was put again."""
    return replace(timed(number), log_offset=LogOffset(log_offset)).entry(first=False)


def run_of(disk: SimDisk, name: str, entries: list[bytes]) -> TimerRun:
    return TimerRun.write(disk, OpenFiles(disk, 4), ROOT / name, sorted(entries))


def content(disk: SimDisk, run: TimerRun) -> list[bytes]:
    return list(read_run(disk, run.path, run.facts))


@pytest.mark.parametrize("count", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_a_run_gives_back_what_it_was_made_of(disk: SimDisk, count: int) -> None:
    entries = [timed(number).entry() for number in range(count)]
    run = run_of(disk, "1", entries)
    again = TimerRun.load(OpenFiles(disk, 4), run.path, run.facts, count // 2)
    assert [run.at(index) for index in range(count)] == entries
    assert b"".join(again.entries(NEVER, EVER)) == b"".join(entries[count // 2 :])
    assert again.head() == entries[count // 2]
    facts = run.facts
    assert (facts.low, facts.high) == (0, (count - 1) * 100)
    assert (facts.oldest, facts.since_ms) == (0, NOW_MS - 1000)
    for index in range(count):
        place = timed(index).place
        assert run.below(place) == index
        assert run.deciding(place) == entries[index]
        assert again.deciding(place) == (entries[index] if index >= count // 2 else None)
    assert run.deciding(timed(count).place) is None


def test_what_has_one_place_is_found_where_it_begins_over_a_block_too(disk: SimDisk) -> None:
    entries = [timed(number).entry() for number in range(BLOCK - 3)]
    entries += [again(BLOCK, 1_000_000 + number) for number in range(2 * BLOCK)]
    run = run_of(disk, "1", entries)
    place = timed(BLOCK).place
    assert run.below(place) == BLOCK - 3
    assert run.deciding(place) == min(entries[BLOCK - 3 :])


@pytest.mark.parametrize("bit", range(0, 8 * 5 * ENTRY_BYTES, 37))
def test_a_flipped_bit_is_found(disk: SimDisk, bit: int) -> None:
    run = run_of(disk, "1", [timed(number).entry() for number in range(5)])
    disk.flip(run.path, bit)
    with pytest.raises(RunDamaged):
        TimerRun.load(OpenFiles(disk, 4), run.path, run.facts, 0)
    with pytest.raises(RunDamaged):
        content(disk, run)


def merged(
    disk: SimDisk, *runs: TimerRun, oldest: bool = True, log_first: int = 0, most: int = 1 << 30
) -> tuple[list[Timed | bytes], TimerMerge]:
    """What is left of runs, and of their merge: messages, or entries that say that one is gone."""
    merge = TimerMerge(disk, runs, ROOT / "merged", log_first, NEVER, oldest=oldest)
    while not merge.work(most):
        pass
    entries = list(read_run(disk, merge.path, merge.facts))
    assert entries == sorted(entries)
    assert merge.marks == [entry[:16] for entry in entries[::BLOCK]]
    return [Timed.of(entry) if entry[16] else entry for entry in entries], merge


@pytest.mark.parametrize("most", [1, 300, 1 << 30])
def test_a_merge_has_what_all_have_in_order(disk: SimDisk, most: int) -> None:
    chance = random.Random(most)
    numbers = list(range(3000))
    chance.shuffle(numbers)
    runs = [
        run_of(disk, str(each), [timed(number).entry() for number in numbers[each::5]])
        for each in range(5)
    ]
    left, merge = merged(disk, *runs, most=most)
    assert left == [timed(number) for number in range(3000)]
    assert (merge.lost, merge.dangling) == (0, 0)


def test_what_is_gone_and_what_says_so_go_together(disk: SimDisk) -> None:
    gone = forgotten(timed(1).place, 1)
    first = run_of(disk, "1", [timed(number).entry() for number in range(3)])
    second = run_of(disk, "2", [gone])
    assert merged(disk, first, second)[0] == [timed(0), timed(2)]


def test_that_it_is_gone_is_kept_while_an_older_run_may_have_it(disk: SimDisk) -> None:
    gone = forgotten(timed(1).place, 1)
    second = run_of(disk, "2", [gone, timed(5).entry()])
    third = run_of(disk, "3", [again(1, 900)])
    left, merge = merged(disk, second, third, oldest=False)
    assert left == [gone, timed(5)]
    assert merge.dangling == 0
    disk.remove(ROOT / "merged")
    left, merge = merged(disk, second)
    assert (left, merge.dangling) == ([timed(5)], 1)


def test_of_what_was_put_again_the_newest_is_left_and_known_as_the_first(disk: SimDisk) -> None:
    first = run_of(disk, "1", [timed(1).entry()])
    second = run_of(disk, "2", [again(1, 900), again(1, 700)])
    merge = merged(disk, first, second)[1]
    (entry,) = read_run(disk, merge.path, merge.facts)
    assert entry == replace(timed(1), log_offset=LogOffset(900)).entry(first=True)


def test_what_was_handed_out_is_left_out(disk: SimDisk) -> None:
    first = run_of(disk, "1", [timed(number).entry() for number in range(0, 10, 2)])
    second = run_of(disk, "2", [timed(number).entry() for number in range(1, 10, 2)])
    first.taken, second.taken = 2, 1
    assert merged(disk, first, second)[0] == [timed(number) for number in range(3, 10)]


def test_what_is_gone_with_the_log_is_left_out_and_counted(disk: SimDisk) -> None:
    run = run_of(disk, "1", [timed(number).entry() for number in range(10)])
    newer = run_of(disk, "2", [again(2, 900)])
    left, merge = merged(disk, run, newer, log_first=500)
    newest = replace(timed(2), log_offset=LogOffset(900))
    assert left == [newest, *(timed(number) for number in range(5, 10))]
    assert merge.lost == 4
