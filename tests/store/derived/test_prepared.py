"""What was worked out beforehand, as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.model.names import TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.derived.derivation import derive
from rocketpipe.store.derived.prepared import SUFFIX, Prepared, encode, portions, remove_prepared
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.puts import Appended


def portion(first: int) -> Prepared:
    records = [
        Appended(
            *(LogOffset(first + 200 * number), 200, QueueOffset(number), 1_000 + number),
            *(TIMER_TOPIC if number == 2 else "orders", number % 2, 0),
            b"KEYS\x01k%d\x02TAGS\x01t\x02" % number,
        )
        for number in range(5)
    ]
    return Prepared(LogOffset(first), LogOffset(first + 1000), derive(records, (), index_tags=True))


def facts(prepared: Prepared) -> object:
    derived = prepared.derived
    runs = [
        (run.topic, run.queue_id, run.first, run.next, run.log_offset, bytes(run.entries))
        for run in derived.runs
    ]
    return prepared.start, prepared.end, derived.records, runs, derived.keys, derived.timed


def test_what_is_read_back_is_what_was_left(tmp_path: Path) -> None:
    wanted = [portion(first) for first in (0, 1000, 2000)]
    assert wanted[0].derived.timed
    one, other = tmp_path / f"1{SUFFIX}", tmp_path / f"2{SUFFIX}"
    one.write_bytes(encode(wanted[0]) + encode(wanted[1]))
    other.write_bytes(encode(wanted[2]))
    found = list(portions(Disk(), [one, other]))
    assert [facts(each) for each in found] == [facts(each) for each in wanted]


@pytest.mark.parametrize("at", [0, 10, 20, 26, 30, 36, 60, 400, -1])
def test_what_is_not_as_it_was_left_ends_it(tmp_path: Path, at: int) -> None:
    data = bytearray(encode(portion(1000)))
    data[at] ^= 1
    path = tmp_path / f"1{SUFFIX}"
    path.write_bytes(encode(portion(0)) + data)
    assert [each.start for each in portions(Disk(), [path, path])] == [0]


def test_what_is_left_over_is_removed_and_nothing_else(tmp_path: Path) -> None:
    remove_prepared(Disk(), tmp_path / "sums")
    sums = tmp_path / "sums"
    sums.mkdir()
    (sums / f"1{SUFFIX}").touch()
    (sums / "queues.json").touch()
    remove_prepared(Disk(), sums)
    assert [each.name for each in sums.iterdir()] == ["queues.json"]
