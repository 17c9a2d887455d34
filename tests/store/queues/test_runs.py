"""Records that lie close together are read as one, and are those that `read` gives."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.twins import (
    WAYS,
    assert_wrong_types_are_refused,
    compiled_functions,
    damaged,
    each_way,
    outcome,
)

from rocketpipe.clock import SystemClock
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.errors import QueueDamaged
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.queues import reader, runs
from rocketpipe.store.queues.entries import BLANK_ENTRY, queue_entry
from rocketpipe.store.queues.reader import ReadStatus
from rocketpipe.store.queues.runs import MAX_GAP_BYTES, MAX_WINDOW_BYTES, find_run, read_run

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
TWIN = "rocketpipe.store.queues._runs"
HEAD = b"what stands before them"


@pytest.fixture(autouse=True, scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    with each_way(request.param, sys.modules[__name__], reader, runs):
        yield


def entries(*places: tuple[int, int]) -> bytes:
    return b"".join(queue_entry(offset, size, 7) for offset, size in places)


def test_neighbours_are_a_run() -> None:
    there = entries((100, 200), (300, 150), (450, 100))
    assert find_run(there, 0, 32, 1 << 20) == (100, 550, 3, 450)
    assert find_run(there, 0, 2, 1 << 20) == (100, 450, 2, 350)
    assert find_run(there, 100, 1, 1 << 20) == (100, 300, 1, 200)


def test_one_is_given_however_long_and_others_as_far_as_there_is_room() -> None:
    there = entries((100, 200), (300, 150), (450, 100))
    assert find_run(there, 0, 32, 1) == (100, 300, 1, 200)
    assert find_run(there, 0, 32, 349) == (100, 300, 1, 200)
    assert find_run(there, 0, 32, 350) == (100, 450, 2, 350)
    assert find_run(there, 0, 0, 350) == (100, 300, 1, 200)


def test_what_lies_between_is_passed_over_if_it_is_not_much() -> None:
    near = entries((0, 200), (200 + MAX_GAP_BYTES, 100))
    assert find_run(near, 0, 32, 1 << 20) == (0, 300 + MAX_GAP_BYTES, 2, 300)
    assert find_run(entries((0, 200), (201 + MAX_GAP_BYTES, 100)), 0, 32, 1 << 20) is None


@pytest.mark.parametrize(
    "places",
    [
        pytest.param((), id="nothing"),
        pytest.param(((0, 200), (100, 200)), id="one in another"),
        pytest.param(((300, 200), (0, 200)), id="backwards"),
        pytest.param(((0, 200), (1 << 20, 200), (0, 200)), id="away and back"),
        pytest.param(((0, MAX_WINDOW_BYTES), (MAX_WINDOW_BYTES, 100)), id="too much"),
        pytest.param(((0, MAX_WINDOW_BYTES + 1),), id="too long"),
        pytest.param(((-100, 200),), id="before the log"),
    ],
)
def test_anything_else_is_none(places: tuple[tuple[int, int], ...]) -> None:
    assert find_run(entries(*places), 0, 32, 1 << 30) is None


def test_blank_entries_and_records_that_are_gone_are_no_run() -> None:
    there = entries((100, 200), (300, 150))
    assert find_run(BLANK_ENTRY + there, 0, 32, 1 << 20) is None
    assert find_run(there + BLANK_ENTRY, 0, 32, 1 << 20) is None
    assert find_run(there + BLANK_ENTRY, 0, 2, 1 << 20) is not None
    assert find_run(there, 101, 32, 1 << 20) is None


def test_whatever_entries_say_both_ways_agree() -> None:
    compiled_one, pure = compiled_functions(TWIN)["find_run"]
    chance = random.Random(18)
    for _ in range(2000):
        at, places = chance.randrange(100), []
        for _ in range(chance.randrange(6)):
            at += chance.choice((0, 0, 0, 7, -7, MAX_GAP_BYTES, MAX_GAP_BYTES + 1))
            size = chance.choice((0, 91, 300, 0x7FFFFFFF, -1, 1 << 18))
            places.append((at, size))
            at += size
        there = entries(*places)
        first, count, most = chance.randrange(50), chance.randrange(8), chance.randrange(1000)
        if chance.random() < 0.2:
            there = damaged(there, chance)
        found = outcome(compiled_one, there, first, count, most)
        assert found == outcome(pure, there, first, count, most)


def test_wrong_types_are_refused() -> None:
    assert_wrong_types_are_refused(TWIN)


class Stored:
    """A store in real files, of which compiled functions read without asking."""

    def __init__(self, root: Path, **changes: Any) -> None:
        self.root = root
        settings: dict[str, Any] = {"segment_bytes": 8192, "queue_file_bytes": 400}
        config = StoreConfig.embedded(root, **(settings | changes))
        self.store = MessageStore.open(
            config, disk=Disk(), clock=SystemClock(), store_host=HOST, threads=False
        )

    def append(self, count: int, *, queues: int = 1, body: bytes = b"body") -> list[LogOffset]:
        puts = [
            Put(
                topic="t",
                queue_id=number % queues,
                body=body + bytes(number % 40),
                properties=b"TAGS\x01A\x02",
                flag=0,
                sys_flag=0,
                born_ms=1,
                born_host=HOST,
            )
            for number in range(count)
        ]
        placed = [each for (each,) in self.store.append([[put] for put in puts])]
        self.store.dispatch()
        return [each.log_offset for each in placed]

    def flip(self, at: int) -> None:
        path = self.store.commit_log.path_of(at)
        with path.open("r+b") as file:
            file.seek(at % self.store.commit_log.segment_bytes)
            (byte,) = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte ^ 4]))


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    made = Stored(tmp_path)
    yield made
    made.store.close()


def any_tag(code: int) -> bool:
    """Match any message, one by one: what is wanted so is no run."""
    return True


@pytest.mark.parametrize("queues", [1, 3])
def test_a_run_is_what_a_read_gives(stored: Stored, queues: int) -> None:
    stored.append(150, queues=queues)
    runs_there = 0
    for queue_id in range(queues):
        for offset in range(stored.store.max_offset("t", queue_id) + 2):
            for count, most in ((1, 1 << 18), (7, 1 << 18), (32, 1 << 18), (32, 700)):
                at = QueueOffset(offset)
                read = stored.store.read(
                    "t", queue_id, at, max_count=count, max_bytes=most, matches=any_tag
                )
                quick = stored.store.read("t", queue_id, at, max_count=count, max_bytes=most)
                assert quick == read
                run = stored.store.run("t", queue_id, offset, count, most)
                if run is None:
                    continue
                runs_there += 1
                assert read.status is ReadStatus.FOUND
                assert run.behind(HEAD) == HEAD + read.records
                assert (run.count, run.size) == (read.count, len(read.records))
                assert run.next_offset == read.next_offset
                assert (run.min_offset, run.max_offset) == (read.min_offset, read.max_offset)
    # There is none only where a segment ends, and at the ends of the queue.
    assert runs_there > 400


def test_there_is_none_where_there_is_nothing(stored: Stored) -> None:
    assert stored.store.run("t", 0, 0, 32, 1 << 18) is None
    stored.append(3)
    assert stored.store.run("t", 0, 3, 32, 1 << 18) is None
    assert stored.store.run("t", 0, -1, 32, 1 << 18) is None
    assert stored.store.run("t", 1, 0, 32, 1 << 18) is None


def test_a_flipped_bit_is_never_given(stored: Stored) -> None:
    places = stored.append(3)
    run = stored.store.run("t", 0, 0, 3, 1 << 18)
    assert run is not None
    assert run.behind(b"") is not None
    start, end = run._span[:2]
    for at in range(start, end):
        stored.flip(at)
        # Nor where it was found right before: every time that it is read, it is checked.
        assert run.behind(b"") is None, at
        stored.flip(at)
    assert run.behind(b"") is not None
    stored.flip(places[1] + 100)
    one = stored.store.run("t", 0, 0, 1, 1 << 18)
    assert one is not None
    assert one.behind(HEAD) is not None


def test_a_record_that_stands_elsewhere_is_not_given(stored: Stored) -> None:
    places = stored.append(41)
    # Two of one length, each whole: the second's bytes in the first one's place.
    path = stored.store.commit_log.path_of(0)
    data = bytearray(path.read_bytes())
    size = places[1] - places[0]
    assert places[40] + size <= len(data)
    data[places[0] : places[0] + size] = data[places[40] : places[40] + size]
    path.write_bytes(data)
    run = stored.store.run("t", 0, 0, 1, 1 << 18)
    assert run is not None
    assert run.behind(b"") is None


def test_unverified_stores_give_what_is_there(tmp_path: Path) -> None:
    stored = Stored(tmp_path, verify_reads=False)
    places = stored.append(2)
    stored.flip(places[0] + 100)
    run = stored.store.run("t", 0, 0, 2, 1 << 18)
    assert run is not None
    found = run.behind(HEAD)
    assert found is not None
    assert len(found) == len(HEAD) + run.size
    stored.store.close()


def test_a_log_that_ends_too_early_or_cannot_be_read_is_left_to_others(stored: Stored) -> None:
    stored.append(3)
    run = stored.store.run("t", 0, 0, 3, 1 << 18)
    assert run is not None
    segment = stored.store.commit_log.run.find(0)
    assert segment is not None
    file = segment.opened()
    with stored.store.commit_log.path_of(0).open("r+b") as cut:
        cut.truncate(run._span[1] - 1)
        assert run.behind(b"") is None
        cut.truncate(segment.size)
    file.close()
    with pytest.raises(DiskError):
        run.behind(b"")
    segment.close()


def test_entries_that_are_not_those_of_the_span_give_nothing(stored: Stored) -> None:
    stored.append(3)
    run = stored.store.run("t", 0, 0, 3, 1 << 18)
    segment = stored.store.commit_log.run.find(0)
    assert run is not None
    assert segment is not None
    start, end, _, size = run._span
    other = entries((start, size + 40), (end, 100), (end, 100))
    assert read_run(segment.opened(), 0, b"", other, run._span, True) is None


def test_a_damaged_queue_is_for_who_puts_it_right(stored: Stored) -> None:
    stored.append(30)
    stored.store.derived.queues.flush_pending()
    (path, *_) = sorted((stored.root / "consumequeue" / "t" / "0").iterdir())
    path.write_bytes(b"\1" * len(path.read_bytes()))
    stored.store.derived.queues.look_again()
    with pytest.raises(QueueDamaged):
        stored.store.run("t", 0, 0, 32, 1 << 18)
    assert stored.store.read("t", 0, QueueOffset(0), max_count=32).count > 0
    assert stored.store.run("t", 0, 0, 10, 1 << 18) is not None
