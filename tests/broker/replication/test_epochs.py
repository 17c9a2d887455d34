"""The file of epochs: RocketMQ's text, what two logs have in common, and power cuts."""

from __future__ import annotations

import errno
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.broker.replication.epochs import (
    MAX_ENTRIES,
    EpochEntry,
    EpochsDamaged,
    EpochSpans,
    EpochTable,
    parsed,
    text_of,
)
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.sim_fault import PowerCut

PATH = Path("/store/epochFileCheckpoint")
#: As RocketMQ 5.5.0 wrote it.
GOLDEN = b"1\n1725254278\n1-0\n"


def table(*entries: tuple[int, int], disk: Disk | None = None) -> EpochTable:
    made = EpochTable(disk or SimDisk(), PATH)
    made.replace([EpochEntry(*entry) for entry in entries])
    return made


def loaded(disk: Disk) -> tuple[EpochEntry, ...]:
    again = EpochTable(disk, PATH)
    again.load()
    return again.entries


# The file


def test_the_text_is_rocketmq_s() -> None:
    assert text_of([EpochEntry(1, 0)]) == GOLDEN
    assert parsed(GOLDEN) == (EpochEntry(1, 0),)


def test_the_crc_is_a_signed_int() -> None:
    texts = [text_of([EpochEntry(1, start)]) for start in range(20)]
    assert any(text.split(b"\n")[1].startswith(b"-") for text in texts)
    assert [parsed(text) for text in texts] == [(EpochEntry(1, start),) for start in range(20)]


def test_windows_lines_are_read() -> None:
    lines = b"1-0\r\n2-77\r\n"
    assert parsed(b"2\r\n%d\r\n%b" % (crc32(lines), lines)) == ((1, 0), (2, 77))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "ends in the middle"),
        (b"1\n", "ends in the middle"),
        (GOLDEN[:-1], "ends in the middle"),
        (b"2\n1725254278\n1-0\n", "1 entries where it says 2"),
        (b"x\n1725254278\n1-0\n", "no count"),
        (b"1\n1725254279\n1-0\n", "CRC"),
        (text_of([EpochEntry(2, 0), EpochEntry(1, 5)]), "epoch 1 behind epoch 2"),
        (text_of([EpochEntry(1, 5), EpochEntry(2, 5)]), "behind 5"),
        (text_of([EpochEntry(2**31, 0)]), "epoch 2147483648"),
        (text_of([EpochEntry(1, -3)]), "entry b'1--3'"),
    ],
)
def test_what_is_not_such_a_text_is_refused(text: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parsed(text)


@given(st.binary(max_size=60))
def test_garbage_is_no_table(garbage: bytes) -> None:
    try:
        entries = parsed(garbage)
    except ValueError:
        return
    assert parsed(text_of(entries)) == entries if entries else garbage


def test_what_is_appended_is_there_after_a_power_cut() -> None:
    disk = SimDisk()
    epochs = table(disk=disk)
    epochs.append(1, 0)
    epochs.append(4, 100)
    disk.crash(keep="nothing")
    assert loaded(disk) == ((1, 0), (4, 100))


def test_a_power_cut_leaves_the_table_before_or_after() -> None:
    before, after = ((1, 0),), ((1, 0), (2, 50))
    seen: set[object] = set()
    for at in range(1, 30):
        for seed in range(8):
            disk = SimDisk(seed=seed)
            epochs = table((1, 0), disk=disk)
            disk.cut_power(at=at)
            try:
                epochs.append(2, 50)
            except PowerCut:
                disk.crash()
            else:
                disk.heal()
                disk.crash()
                assert loaded(disk) == after
                seen.add("whole")
                continue
            found = loaded(disk)
            assert found in (before, after)
            seen.add(found)
            epochs = EpochTable(disk, PATH)
            epochs.load()
            epochs.append(3, 60)  # over whatever was left behind
            assert loaded(disk)[-1] == (3, 60)
    assert seen == {"whole", before, after}


def test_a_table_that_was_emptied_does_not_come_back() -> None:
    for at in range(1, 12):
        disk = SimDisk(seed=at)
        epochs = table((1, 0), disk=disk)
        epochs.append(2, 50)
        disk.cut_power(at=at)
        try:
            epochs.replace(())
        except PowerCut:
            disk.crash()
            assert loaded(disk) in ((), ((1, 0), (2, 50)))
        else:
            disk.heal()
            disk.crash()
            assert loaded(disk) == ()


def test_a_full_disk_changes_nothing() -> None:
    disk = SimDisk()
    epochs = table((1, 0), disk=disk)
    disk.fail(errno=errno.ENOSPC, only={"write"})
    with pytest.raises(DiskError):
        epochs.append(2, 50)
    assert epochs.entries == ((1, 0),)
    assert loaded(disk) == ((1, 0),)
    epochs.append(2, 50)
    assert loaded(disk) == ((1, 0), (2, 50))


def test_a_damaged_file_is_read_from_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "epochFileCheckpoint"
    epochs = EpochTable(Disk(), path)
    epochs.append(1, 0)
    epochs.append(2, 50)
    path.write_bytes(b"torn")
    epochs.load()
    assert epochs.entries == ((1, 0),)
    epochs.previous.write_bytes(b"torn too")
    with pytest.raises(EpochsDamaged, match="empty this replica's directory"):
        epochs.load()


def test_without_a_file_there_are_no_epochs() -> None:
    epochs = EpochTable(SimDisk(), PATH)
    epochs.load()
    assert epochs.entries == ()
    assert epochs.last_epoch == 0
    assert epochs.at(7) is None


def test_a_file_that_is_far_too_long_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "epochFileCheckpoint"
    path.write_bytes(GOLDEN * 10_000)
    with pytest.raises(EpochsDamaged, match="more than"):
        EpochTable(Disk(), path).load()


# Changes


def test_an_epoch_without_a_byte_gives_way() -> None:
    epochs = table((1, 0), (2, 50))
    epochs.append(3, 50)
    assert epochs.entries == ((1, 0), (3, 50))
    assert epochs.last_epoch == 3


@pytest.mark.parametrize(("epoch", "start"), [(2, 60), (1, 60), (3, 49)])
def test_epochs_only_go_on(epoch: int, start: int) -> None:
    epochs = table((1, 0), (2, 50))
    with pytest.raises(ValueError, match=f"epoch {epoch}"):
        epochs.append(epoch, start)
    assert epochs.last_epoch == 2


def test_of_too_many_the_oldest_goes() -> None:
    epochs = table(*((epoch, epoch) for epoch in range(1, MAX_ENTRIES + 1)))
    epochs.append(MAX_ENTRIES + 1, MAX_ENTRIES + 1)
    assert len(epochs.entries) == MAX_ENTRIES
    assert epochs.entries[0] == (2, 2)


def test_cutting_forgets_what_has_no_byte_left() -> None:
    epochs = table((1, 0), (2, 50), (3, 80))
    epochs.cut(51)
    assert epochs.entries == ((1, 0), (2, 50))
    epochs.cut(50)
    assert epochs.entries == ((1, 0),)


def test_dropping_keeps_the_epoch_of_the_first_byte() -> None:
    epochs = table((1, 0), (2, 50), (3, 80))
    epochs.drop_before(49)
    assert epochs.entries[0] == (1, 0)
    epochs.drop_before(79)
    assert epochs.entries == ((2, 50), (3, 80))
    epochs.drop_before(80)
    assert epochs.entries == ((3, 80),)


def test_whose_byte_it_is_and_where_an_epoch_ends() -> None:
    epochs = table((1, 10), (2, 50))
    assert [epochs.at(offset) for offset in (9, 10, 49, 50, 99)] == [
        None,
        (1, 10),
        (1, 10),
        (2, 50),
        (2, 50),
    ]
    assert epochs.end_of(1, 70) == 50
    assert epochs.end_of(2, 70) == 70
    with pytest.raises(KeyError):
        epochs.end_of(3, 70)


# What two logs have in common


@pytest.mark.parametrize(
    ("mine", "mine_end", "theirs", "their_end", "common"),
    [
        ([(1, 0)], 70, [(1, 0)], 90, 70),  # behind
        ([(1, 0)], 90, [(1, 0)], 70, 70),  # ahead in the leader's own epoch
        ([(1, 0)], 90, [(1, 0), (2, 60)], 200, 60),  # an old leader's tail
        ([(1, 0), (2, 60)], 90, [(1, 0), (3, 60)], 200, 60),  # both went on at one place
        ([(1, 0), (2, 60)], 90, [(1, 0), (3, 40)], 200, 40),
        ([(1, 0), (2, 60)], 90, [(1, 0), (2, 61)], 200, 60),  # the same epoch, another start
        ([(1, 0), (2, 60), (5, 90)], 90, [(1, 0), (2, 60), (6, 90)], 200, 90),  # without a byte
        ([(1, 0), (2, 60)], 50, [(1, 0), (2, 60)], 200, 50),  # a crash took its first bytes
        ([(1, 0), (2, 60)], 50, [(1, 0), (3, 40)], 200, 40),
        ([(2, 60)], 90, [(1, 0), (3, 60)], 200, None),
        ([(1, 0)], 90, [(3, 500)], 900, None),
        ([], 90, [(1, 0)], 900, None),
        ([(1, 0)], 90, [], 0, None),
    ],
)
def test_what_is_common(
    mine: list[tuple[int, int]],
    mine_end: int,
    theirs: list[tuple[int, int]],
    their_end: int,
    common: int | None,
) -> None:
    entries = [EpochEntry(*entry) for entry in theirs]
    assert table(*mine).common_end(mine_end, entries, their_end) == common


@given(st.data())
def test_what_is_common_is_the_same_in_both_logs(data: st.DataObject) -> None:
    """Logs as (epoch of each byte): grown together, then apart."""
    shared = data.draw(st.lists(st.integers(0, 2), max_size=12))
    log: list[int] = []
    epoch = 1
    for step in shared:
        epoch += step
        log.append(epoch)
    # An epoch has one leader: what two logs have of the same epoch has one past.
    mine, theirs = list(log), list(log)
    odd, even = (epoch + 1) | 1, (epoch + 2) & ~1
    mine += [odd + 2 * (at // 3) for at in range(data.draw(st.integers(0, 7)))]
    theirs += [even + 2 * (at // 2) for at in range(data.draw(st.integers(0, 7)))]
    mine = mine[: data.draw(st.integers(0, len(mine)))]
    equal = next(
        (at for at, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b),
        min(len(mine), len(theirs)),
    )
    common = table(*_entries(mine)).common_end(
        len(mine), [EpochEntry(*entry) for entry in _entries(theirs)], len(theirs)
    )
    assert (common or 0) == equal


def _entries(log: list[int]) -> list[tuple[int, int]]:
    return [(epoch, at) for at, epoch in enumerate(log) if at == 0 or log[at - 1] != epoch]


def test_a_span_is_known_by_any_of_its_offsets_until_there_are_others() -> None:
    epochs = table((2, 100), (5, 300))
    spans = EpochSpans(epochs)
    assert spans.at(50) == ((0, 0), 100)
    assert spans.at(100) == spans.at(299) == ((2, 100), 300)
    assert spans.at(300) == spans.at(9_000) == ((5, 300), None)
    epochs.append(6, 9_500)
    assert spans.at(9_400) == ((5, 300), 9_500)
    assert spans.at(9_500) == ((6, 9_500), None)
