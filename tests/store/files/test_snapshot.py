"""A file that is replaced as a whole."""

from __future__ import annotations

import errno
import json
import logging
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.files.snapshot import Snapshot, SnapshotDamaged, sealed, unsealed
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.sim_fault import PowerCut


def text(number: int) -> bytes:
    return b'{\n\t"number":%d\n}' % number


def number(data: bytes) -> int:
    value = json.loads(data)["number"]
    assert isinstance(value, int)
    return value


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "table.json"


def test_nothing_saved_is_nothing_loaded(path: Path) -> None:
    assert Snapshot(Disk(), path).load(number) is None


def test_the_last_version_is_loaded_and_the_one_before_is_beside_it(path: Path) -> None:
    snapshot = Snapshot(Disk(), path)
    for value in (1, 2, 3):
        snapshot.save(text(value))
    assert Snapshot(Disk(), path).load(number) == 3
    assert number(snapshot.previous.read_bytes()) == 2
    assert Disk().names(path.parent) == ["table.json", "table.json.bak"]


def test_other_readers_see_one_more_key() -> None:
    assert json.loads(sealed(text(5))).keys() == {"rocketpipe.crc32", "number"}
    assert unsealed(sealed(text(5))) == text(5)
    assert json.loads(sealed(b"{}")).keys() == {"rocketpipe.crc32"}
    assert unsealed(sealed(b"{}")) == b"{}"


def test_a_file_without_a_checksum_is_taken_as_it_is(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'{"number":7}')
    assert Snapshot(Disk(), path).load(number) == 7


def test_every_changed_byte_falls_back_to_the_version_before(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    snapshot = Snapshot(Disk(), path)
    snapshot.save(text(1))
    snapshot.save(text(2))
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        caplog.clear()
        value = Snapshot(Disk(), path).load(number)
        if value == 2:
            # Where the checksum's key is another one now, the text behind it is still right.
            assert at < whole.index(b":"), f"byte {at}"
            continue
        assert value == 1, f"byte {at}"
        (warning,) = caplog.records
        assert warning.levelno == logging.WARNING
        assert f"file={path} " in warning.getMessage()
        assert f"previous={path}.bak" in warning.getMessage()


@pytest.mark.parametrize("torn", [b"", b"\0" * 40, text(2)[:-1]])
def test_an_empty_or_torn_file_falls_back_even_without_a_checksum(path: Path, torn: bytes) -> None:
    snapshot = Snapshot(Disk(), path)
    snapshot.save(text(1))
    snapshot.save(text(2))
    path.write_bytes(torn)
    assert Snapshot(Disk(), path).load(number) == 1


def test_a_missing_file_falls_back_too(path: Path) -> None:
    snapshot = Snapshot(Disk(), path)
    snapshot.save(text(1))
    snapshot.save(text(2))
    path.unlink()
    assert Snapshot(Disk(), path).load(number) == 1


def test_two_damaged_versions_are_an_error_that_names_both(path: Path) -> None:
    snapshot = Snapshot(Disk(), path)
    snapshot.save(text(1))
    snapshot.save(text(2))
    path.write_bytes(path.read_bytes().replace(b"2\n", b"9\n"))
    snapshot.previous.write_bytes(b"[")
    with pytest.raises(SnapshotDamaged) as caught:
        Snapshot(Disk(), path).load(number)
    assert str(path) in str(caught.value)
    assert str(snapshot.previous) in str(caught.value)
    assert "take the line" in str(caught.value)


def test_what_the_disk_cannot_read_is_damaged_and_the_version_before_is_there() -> None:
    disk, path = SimDisk(), Path("/config/table.json")
    snapshot = Snapshot(disk, path)
    for value in (1, 2):
        snapshot.save(text(value))
    disk.fail(only=["read"], path="table.json", errno=errno.EIO)
    again = Snapshot(disk, path)
    assert again.load(number) == 1
    again.save(text(3))
    disk.fail(only=["read"], path="table.json", errno=errno.EIO)
    again.save(text(4))
    assert Snapshot(disk, path).load(number) == 4
    disk.fail(only=["read"], path="table.json", errno=errno.EIO, times=2)
    with pytest.raises(SnapshotDamaged):
        Snapshot(disk, path).load(number)
    disk.fail(only=["read"], path="table.json", errno=errno.EMFILE)
    with pytest.raises(DiskError):
        Snapshot(disk, path).load(number)


@pytest.mark.parametrize("loaded", [True, False])
def test_a_damaged_file_does_not_push_out_the_good_version_before_it(
    path: Path, loaded: bool
) -> None:
    snapshot = Snapshot(Disk(), path)
    snapshot.save(text(1))
    snapshot.save(text(2))
    path.write_bytes(path.read_bytes().replace(b"2\n", b"9\n"))
    again = Snapshot(Disk(), path)
    if loaded:
        assert again.load(number) == 1
    again.save(text(3))
    assert number(unsealed(snapshot.previous.read_bytes())) == 1
    assert number(unsealed(path.read_bytes())) == 3
    again.save(text(4))
    assert number(unsealed(snapshot.previous.read_bytes())) == 3


@pytest.mark.parametrize("seed", range(5))
def test_whichever_operation_fails_the_old_or_the_new_version_is_there(seed: int) -> None:
    path = Path("/config/table.json")
    for fail_at in range(1, 100):
        disk = SimDisk(seed)
        good = Snapshot(disk, path)
        good.save(text(1))
        good.save(text(2))
        disk.put(Path("/config/table.json.tmp"), b"left by a crash")
        disk.fail(at=fail_at, errno=errno.ENOSPC)
        try:
            Snapshot(disk, path).save(text(3))
        except DiskError:
            disk.heal()
            assert Snapshot(disk, path).load(number) in {2, 3}
            again = Snapshot(disk, path)  # the next save mends whatever is left
            again.save(text(4))
            assert again.load(number) == 4
            continue
        assert fail_at > 8  # two files are created, written, synced and renamed
        disk.heal()
        assert Snapshot(disk, path).load(number) == 3
        return
    pytest.fail("it never completed")


@pytest.mark.parametrize("seed", range(40))
def test_whenever_the_power_goes_what_was_saved_is_there_or_what_was_being_saved(
    seed: int,
) -> None:
    path = Path("/config/table.json")
    chance = random.Random(seed)
    disk = SimDisk(seed)
    saved = 0
    for value in range(1, 30):
        snapshot = Snapshot(disk, path)
        disk.cut_power(at=chance.randrange(1, 30))
        try:
            snapshot.save(text(value))
        except PowerCut:
            disk.crash()
            disk.heal()
            found = Snapshot(disk, path).load(number) or 0
            assert found in {saved, value}
            saved = found
        else:
            disk.heal()
            saved = value
        assert (Snapshot(disk, path).load(number) or 0) == saved


def test_a_long_text_is_saved_as_it_comes(path: Path) -> None:
    snapshot = Snapshot(Disk(), path)
    snapshot.save(text(1))
    told: list[int] = []
    snapshot.save_pieces([b"{", b'\n\t"number"', b":2\n}"], told.append)
    assert path.read_bytes() == sealed(text(2))
    assert told == [snapshot.crc]
    again = Snapshot(Disk(), path)
    assert again.load(number) == 2
    assert again.crc == snapshot.crc
    assert number(snapshot.previous.read_bytes()) == 1


def test_a_long_text_that_ends_half_way_leaves_what_was_there(path: Path) -> None:
    snapshot = Snapshot(Disk(), path)
    snapshot.save(text(1))

    def pieces() -> Iterator[bytes]:
        yield b"{"
        raise ValueError("no more")

    def refuse(_: int) -> None:
        raise ValueError("not now")

    with pytest.raises(ValueError, match="no more"):
        snapshot.save_pieces(pieces(), lambda _: None)
    with pytest.raises(ValueError, match="not now"):
        snapshot.save_pieces([text(2)], refuse)
    assert Snapshot(Disk(), path).load(number) == 1
    assert Disk().names(path.parent) == ["table.json"]


@pytest.mark.parametrize("seed", range(20))
def test_whenever_the_power_goes_a_long_text_is_there_or_the_one_before(seed: int) -> None:
    path = Path("/config/table.json")
    chance = random.Random(seed)
    disk = SimDisk(seed)
    saved = 0
    for value in range(1, 30):
        snapshot = Snapshot(disk, path)
        snapshot.load(number)
        disk.cut_power(at=chance.randrange(1, 30))
        try:
            snapshot.save_pieces([text(value)[:5], text(value)[5:]], lambda _: None)
        except PowerCut:
            disk.crash()
            found = Snapshot(disk, path).load(number) or 0
            assert found in {saved, value}
            saved = found
        else:
            disk.heal()
            saved = value


def test_what_cannot_be_read_is_set_aside_under_names_of_its_own() -> None:
    disk, path = SimDisk(), Path("/config/table.json")
    disk.make_directory(path.parent)
    snapshot = Snapshot(disk, path)
    for number, name in enumerate(("table.json.damaged", "table.json.damaged-2"), 1):
        disk.put(path, b"damage %d" % number)
        assert snapshot.set_aside() == [name]
        assert disk.content(path.with_name(name)) == b"damage %d" % number
    assert path.name not in disk.names(path.parent)
