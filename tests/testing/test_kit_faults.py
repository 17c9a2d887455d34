"""Faults on demand."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.protocol.codes import RequestCode, ResponseCode
from rocketpipe.protocol.command import Command
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.layout import StoreLayout
from rocketpipe.testing.kit_faults import Faults, KitDisk

SEND = Command(code=RequestCode.SEND_MESSAGE_V2, opaque=7)
PULL = Command(code=RequestCode.PULL_MESSAGE, opaque=8)


def test_only_sends_are_refused_and_only_so_often() -> None:
    faults = Faults()
    assert faults.refused(SEND) is None
    faults.refuse_sends(2, code=ResponseCode.NO_PERMISSION, remark="closed today")
    assert faults.refused(PULL) is None
    for _ in range(2):
        refused = faults.refused(SEND)
        assert refused is not None
        assert (refused.code, refused.remark, refused.opaque) == (16, "closed today", 7)
    assert faults.refused(SEND) is None


def test_without_a_number_sends_are_refused_until_it_heals() -> None:
    faults = Faults()
    faults.refuse_sends()
    assert all(faults.refused(SEND) for _ in range(100))
    faults.heal()
    assert faults.refused(SEND) is None


def test_acks_are_dropped_one_by_one() -> None:
    faults = Faults()
    faults.drop_next_ack()
    faults.drop_next_ack()
    assert [faults.loses_answer(each) for each in (PULL, SEND, SEND, SEND)] == [
        *(False, True, True, False)
    ]


@pytest.mark.parametrize("fault", [Faults().drop_next_ack, Faults().refuse_sends])
def test_what_never_happens_is_no_fault(fault: object) -> None:
    with pytest.raises(ValueError, match="never"):
        fault(0)  # type: ignore[operator]


def test_a_full_disk_takes_no_message_and_no_new_file_but_what_is_written_in_place(
    tmp_path: Path,
) -> None:
    faults = Faults()
    disk = KitDisk(faults, tmp_path)
    log = StoreLayout(tmp_path).commit_log
    disk.make_directory(log)
    with disk.create(log / "0") as messages, disk.create(tmp_path / "checkpoint") as small:
        messages.preallocate(10)
        faults.full_disk()
        for attempt in (
            lambda: messages.write(b"x", 0),
            lambda: small.preallocate(10),
            lambda: disk.create(tmp_path / "new"),
        ):
            with pytest.raises(DiskError) as refused:
                attempt()
            assert refused.value.no_room
        small.write(b"x", 0)
        faults.heal()
        messages.write(b"x", 0)
        assert messages.read(1, 0) == b"x"


def test_the_dead_change_nothing_and_close_all_the_same(tmp_path: Path) -> None:
    disk = KitDisk(Faults(), tmp_path)
    file = disk.create(tmp_path / "a")
    file.write(b"before", 0)
    disk.is_frozen = True
    for attempt in (
        lambda: file.write(b"behind", 0),
        lambda: file.truncate(0),
        lambda: disk.rename(tmp_path / "a", tmp_path / "b"),
        lambda: disk.remove(tmp_path / "a"),
        lambda: disk.create(tmp_path / "c"),
    ):
        with pytest.raises(DiskError) as refused:
            attempt()
        assert not refused.value.no_room
    file.close()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"before"
