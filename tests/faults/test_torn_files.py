"""Whatever was torn off at the end of a file, exactly what was whole before it survives."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpipe.record.layout import BLANK_MAGIC
from rocketpipe.store.errors import OddSegment
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.small_store import (
    KINDS,
    ROOT,
    SEGMENT_BYTES,
    Filled,
    Kind,
    everything,
    fill,
    open_store,
    put,
)

AFTER = ("zeros", "random bytes")


def torn(disk: SimDisk, path: Path, at: int, end: int, after: str, seed: int) -> SimDisk:
    """A disk on which the bytes of one file from ``at`` to ``end`` never arrived."""
    data = disk.content(path)
    copy = disk.copy(seed)
    rest = bytes(end - at)
    if after == "random bytes":
        rest = random.Random(seed).randbytes(end - at)
    copy.put(path, data[:at] if after == "nothing" else data[:at] + rest + data[end:])
    return copy


def in_queue(filled: Filled, count: int) -> dict[int, bytes]:
    """The records of the first groups that readers of queues see."""
    shown = filled.surviving(count)
    hidden = filled.kind.group[0].sys_flag in (4, 12)
    return {} if hidden else shown


def check_cut(filled: Filled, disk: SimDisk, groups: int, where: str) -> None:
    """Hold a reopened store to its first ``groups``, and to taking the next one."""
    store = open_store(disk, filled.kind)
    store.dispatch()
    whole = filled.surviving(groups)
    assert everything(store) == in_queue(filled, groups), where
    assert {at: store.record_at(at) for at in whole} == whole, where
    [again] = store.append([filled.kind.group])
    first = filled.groups[groups][0]
    assert (again[0].log_offset, again[0].queue_offset) == (first.log_offset, first.queue_offset)
    store.dispatch()
    if in_queue(filled, 1):
        assert [place.log_offset for place in again] == sorted(everything(store))[-len(again) :]
    store.close()


@pytest.mark.parametrize("after", AFTER)
def test_a_torn_last_record_is_cut_at_every_byte(kind: Kind, after: str) -> None:
    filled = fill(kind)
    start = filled.groups[-1][0].log_offset
    path = filled.path(start)
    end = filled.end
    if not kind.config.get("checksum", True):
        # Without a checksum nobody can tell that properties are not what was sent.
        end -= len(kind.group[-1].properties)
    # The last byte may be right by chance when the bytes are random.
    for at in range(start, end):
        disk = torn(filled.disk, path, at, filled.end, after, seed=at)
        if disk.content(path) != filled.disk.content(path):
            check_cut(filled, disk, 2, f"cut at {at - start} of {filled.end - start}, then {after}")


@pytest.mark.usefixtures("skip_checksums")
@pytest.mark.parametrize("after", AFTER)
def test_the_check_turns_red_when_checksums_are_skipped(after: str) -> None:
    filled = fill(KINDS["plain"])
    start = filled.groups[-1][0].log_offset
    disk = torn(filled.disk, filled.path(start), start + 90, start + 100, after, seed=1)
    with pytest.raises(AssertionError, match="a torn body"):
        check_cut(filled, disk, 2, "a torn body")


def test_a_log_file_that_ends_too_early_is_named_and_left_alone() -> None:
    filled = fill(KINDS["plain"])
    start = filled.groups[-1][0].log_offset
    path = filled.path(start)
    for at in range(start, filled.end):
        disk = torn(filled.disk, path, at, filled.end, "nothing", seed=at)
        before = disk.content(path)
        with pytest.raises(OddSegment, match=path.name):
            open_store(disk, filled.kind)
        assert disk.content(path) == before


def rolled() -> Filled:
    """A store whose last append closed a segment and went on in the next."""
    kind = Kind([put(bytes(1000))])
    filled = fill(kind, groups=4, flushed=3)
    assert [group[0].log_offset // SEGMENT_BYTES for group in filled.groups] == [0, 0, 0, 1]
    return filled


@pytest.mark.parametrize("after", AFTER)
def test_a_torn_filler_is_cut_at_every_byte(after: str) -> None:
    filled = rolled()
    start = filled.groups[2][0].log_offset + filled.groups[2][0].size
    path = filled.path(start)
    assert filled.disk.content(path)[start + 4 : start + 8] == (
        BLANK_MAGIC.to_bytes(4, "big", signed=True)
    )
    next_path = filled.path(SEGMENT_BYTES)
    for at in range(start, start + 8):
        disk = torn(filled.disk, path, at, start + 8, after, seed=at)
        disk.put(next_path, bytes(SEGMENT_BYTES))
        check_cut(filled, disk, 3, f"cut at {at - start} of the filler, then {after}")


@pytest.mark.parametrize("after", AFTER)
def test_a_torn_filler_before_a_whole_record_loses_nothing_that_was_durable(after: str) -> None:
    filled = rolled()
    start = filled.groups[2][0].log_offset + filled.groups[2][0].size
    for at in range(start, start + 8):
        disk = torn(filled.disk, filled.path(start), at, start + 8, after, seed=at)
        store = open_store(disk, filled.kind)
        store.dispatch()
        found = everything(store)
        assert found in (filled.surviving(3), filled.surviving(4)), f"byte {at - start}, {after}"
        if found == filled.surviving(3):
            names = {path.parent.name for path in disk.files()}
            assert "quarantine" in names, "what was cut off is kept"
        store.close()


def derived_files(disk: SimDisk) -> Iterator[Path]:
    for path in disk.files():
        if path.parent.name != "commitlog" and path.name != "lock":
            yield path


@pytest.mark.parametrize("closed", [False, True], ids=["killed", "closed"])
@pytest.mark.parametrize("after", ["nothing", *AFTER])
def test_any_other_file_may_be_torn_at_any_byte(after: str, closed: bool) -> None:
    """The log is what counts; all else is checked against it, or made anew."""
    kind = Kind([put(b"first"), put(b"second", queue_id=1)])
    filled = fill(kind, groups=4, flushed=4, closed=closed)
    expected = filled.surviving(4)
    for path in derived_files(filled.disk):
        data = filled.disk.content(path)
        meaningful = len(data.rstrip(b"\0"))
        # Each byte that says something; of long ones every few, a prime apart.
        step = 1 if meaningful <= 400 else 7
        for at in range(0, meaningful, step):
            disk = torn(filled.disk, path, at, max(meaningful, at), after, seed=at)
            where = f"{path.relative_to(ROOT)} cut at {at} of {meaningful}, then {after}"
            try:
                store = open_store(disk, kind)
                store.dispatch()
                assert everything(store) == expected, where
                hits = set(store.find_by_key("plain", "some-key", 0, 1 << 62))
                assert hits == set(expected), where
                store.close()
            except Exception as error:
                error.add_note(where)
                raise


@pytest.mark.parametrize("closed", [False, True], ids=["killed", "closed"])
def test_any_other_file_may_be_missing_empty_or_foreign(closed: bool) -> None:
    kind = Kind([put(b"first"), put(b"second", queue_id=1)])
    filled = fill(kind, groups=4, flushed=4, closed=closed)
    others = list(derived_files(filled.disk))
    for path in others:
        for what, data in {
            "missing": None,
            "empty": b"",
            "zeros": bytes(len(filled.disk.content(path))),
            "foreign": b"#!/bin/sh\n" * 50,
            **{f"as {other.name}": filled.disk.content(other) for other in others},
        }.items():
            disk = filled.disk.copy()
            if data is None:
                disk.remove(path)
                disk.sync_directory(path.parent)
            else:
                disk.put(path, data)
            try:
                store = open_store(disk, kind)
                store.dispatch()
                assert everything(store) == filled.surviving(4)
                store.close()
            except Exception as error:
                error.add_note(f"{path.relative_to(ROOT)}: {what}")
                raise
