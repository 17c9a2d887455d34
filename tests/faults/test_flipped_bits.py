"""One wrong bit anywhere in a record is noticed, and the record is served to nobody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.store.support.arrival_log import ArrivalLog

from rocketpipe.errors import RecordError, StoreError
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record import hot
from rocketpipe.store.errors import RecordCorrupt, StoreDamaged
from rocketpipe.store.log import records
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.small_store import (
    KINDS,
    ROOT,
    Filled,
    Kind,
    everything,
    fill,
    open_store,
)

SEALED = sorted(name for name, kind in KINDS.items() if kind.config.get("checksum", True))


@pytest.fixture(params=SEALED)
def sealed(request: pytest.FixtureRequest) -> Kind:
    """Each kind that has a checksum over the whole record."""
    return KINDS[request.param]


@pytest.fixture
def filled(sealed: Kind) -> Filled:
    """Three groups of one kind, all durable."""
    return fill(sealed, groups=3, flushed=3, closed=True)


def check_no_flip_is_dispatched(kind: Kind) -> int:
    """Flip each bit of each record before it is dispatched, and back; count the flips.

    What was just appended is dispatched from memory: here the log is read, as after a restart.
    """
    disk = SimDisk()
    arrivals = ArrivalLog()
    store = open_store(disk, kind, on_arrival=arrivals, on_damaged_record="stop")
    flips = 0
    for _ in range(3):
        [group] = store.append([kind.group])
        store.derived.dispatcher.fresh.forget()
        store.flush()
        arrivals.arrived.clear()
        place = group[0]
        path = ROOT / "commitlog" / f"{0:020d}"
        for bit in range(8 * place.size):
            disk.flip(path, 8 * place.log_offset + bit)
            try:
                store.dispatch()
            except StoreError:
                flips += 1
            assert not arrivals.arrived, (
                f"bit {bit} of the record at {place.log_offset} is not noticed"
            )
            disk.flip(path, 8 * place.log_offset + bit)
        store.dispatch()
    store.close()
    return flips


def test_every_flipped_bit_is_noticed_when_a_record_is_dispatched(sealed: Kind) -> None:
    assert check_no_flip_is_dispatched(sealed) > 3 * 8 * 100


def check_no_flip_is_served(filled: Filled) -> int:
    """Flip each bit under an open store, read in every way, and flip it back; count the flips."""
    disk = filled.disk.copy()
    store = open_store(disk, filled.kind)
    store.dispatch()
    right = set(filled.records.values())
    flips = 0
    for at, record in filled.records.items():
        head, _, topic, topic_end, _, _ = hot.split(record, 0, len(record))
        name, queue_id, queue_offset = record[topic:topic_end].decode(), head[3], head[5]
        in_queue = head[7] & 12 not in (4, 12)
        for bit in range(8 * len(record)):
            disk.flip(filled.path(at), 8 * (at % 4096) + bit)
            try:
                served = [store.record_at(LogOffset(at))]
            except RecordCorrupt:
                served = []
            assert not served, f"bit {bit} of the record at {at} is served by its log offset"
            # Each bit of one record through its queue too, which costs more.
            if in_queue and at == min(filled.records):
                try:
                    result = store.read(name, queue_id, QueueOffset(queue_offset), max_count=1)
                    assert result.records == b"" or result.records in right, f"bit {bit} at {at}"
                except StoreError:
                    pass
            disk.flip(filled.path(at), 8 * (at % 4096) + bit)
            flips += 1
        assert store.record_at(LogOffset(at)) == record
    store.close()
    return flips


def test_no_flipped_bit_is_served_to_a_reader(filled: Filled) -> None:
    assert check_no_flip_is_served(filled) == 8 * sum(map(len, filled.records.values()))


def check_recovery_notices(filled: Filled) -> None:
    """Flip bits of the middle record, recover from the log alone, and look what is served."""
    at = filled.groups[1][0].log_offset
    record = filled.records[at]
    bare = filled.disk.copy()
    for path in bare.files():
        if path.parent.name != "commitlog":
            bare.remove(path)
    for parent in {path.parent for path in filled.disk.files()}:
        bare.sync_directory(parent)
    told: set[tuple[int, Path]] = set()
    for bit in range(8 * len(record)):
        disk = bare.copy()
        disk.flip(filled.path(at), 8 * (at % 4096) + bit)
        try:
            store = open_store(disk, filled.kind)
        except StoreDamaged as damage:
            told.add((damage.at, damage.file))
            continue
        # Without a checkpoint nobody knows what was durable: cut, and kept aside, is right too.
        store.dispatch()
        served = everything(store)
        assert set(served.values()) <= set(filled.records.values()), f"bit {bit} is served"
        assert at not in served, f"bit {bit} is not noticed"
        assert any(path.parent.name == "quarantine" for path in disk.files()), f"bit {bit}"
        store.close()
    assert told <= {(at, filled.path(at))}


def test_every_flipped_bit_is_noticed_by_recovery(filled: Filled) -> None:
    check_recovery_notices(filled)


def test_damage_below_the_durable_position_stops_the_store_and_says_where() -> None:
    filled = fill(KINDS["plain"], groups=3, flushed=3)
    at = filled.groups[1][0].log_offset
    next_good = filled.groups[2][0].log_offset
    filled.disk.flip(filled.path(at), 8 * (at + 60))
    # The checkpoint lets recovery start behind it; the queues are gone, so it must be read.
    for path in filled.disk.files():
        if "consumequeue" in path.parts or path.parent.name == "sums":
            filled.disk.remove(path)
    with pytest.raises(StoreDamaged) as caught:
        open_store(filled.disk.copy(), filled.kind, on_damaged_record="stop").dispatch()
    assert (caught.value.at, caught.value.next_good) == (at, next_good)
    store = open_store(filled.disk, filled.kind, on_damaged_record="stop", on_damaged_log="skip")
    store.dispatch()
    survivors = {at: filled.records[at] for at in (filled.offsets[0], next_good)}
    assert everything(store) == survivors
    store.close()


def test_an_unsealed_record_is_protected_in_its_body_alone() -> None:
    """As in RocketMQ without ``enabledAppendPropCRC``: the reason why ours is on by default."""
    filled = fill(KINDS["without checksum"], groups=3, flushed=3, closed=True)
    for at, record in filled.records.items():
        _, body, topic, *_ = hot.split(record, 0, len(record))
        for bit in range(8 * body, 8 * (topic - 1)):
            wrong = bytearray(record)
            wrong[bit // 8] ^= 0x80 >> bit % 8
            with pytest.raises(RecordError):
                records.check_record(bytes(wrong), at)


@pytest.mark.usefixtures("skip_checksums")
@pytest.mark.parametrize(
    "check",
    [
        lambda: check_no_flip_is_dispatched(KINDS["plain"]),
        lambda: check_no_flip_is_served(fill(KINDS["plain"], closed=True)),
        lambda: check_recovery_notices(fill(KINDS["plain"], closed=True)),
    ],
    ids=["dispatch", "reading", "recovery"],
)
def test_the_check_turns_red_when_checksums_are_skipped(check: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match=r"bit \d+"):
        check()
