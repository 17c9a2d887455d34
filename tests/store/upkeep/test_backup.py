"""A copy of a store, and what becomes of it."""

from __future__ import annotations

import errno
import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpipe.errors import StoreError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.errors import StoreDamaged
from rocketpipe.store.files.disk import Disk, DiskError, DiskFile
from rocketpipe.store.files.snapshot import SnapshotDamaged
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.queues.entries import queue_entry
from rocketpipe.store.upkeep.backup import (
    MANIFEST,
    Backup,
    BackupDamaged,
    back_up,
    read_manifest,
    restore,
)
from rocketpipe.store.upkeep.check import check_store
from rocketpipe.store.upkeep.log_scan import LogFiles, Scanned, scan
from rocketpipe.store.upkeep.retention import Pins
from rocketpipe.testing.clock import ManualClock

SEGMENT = 65536


@pytest.fixture(params=["5.5.0-stop", "4.9.7-kill"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, unpack_golden: Callable[..., Path]
) -> Path:
    return unpack_golden(request.param, tmp_path)


def records(store: Path) -> list[bytes]:
    with LogFiles(Disk(), store / "commitlog") as files:
        return [item.record for item in scan(files) if isinstance(item, Scanned)]


def test_what_is_restored_has_every_record_and_every_table(store: Path, tmp_path: Path) -> None:
    done = back_up(Disk(), store, tmp_path / "copy", clock=ManualClock(5))
    assert done == read_manifest(Disk(), tmp_path / "copy")
    assert done.created_ms == 5
    assert done.end_offset == check_store(Disk(), store).end_offset
    assert restore(Disk(), tmp_path / "copy", tmp_path / "new") == done
    used = [path for path in (store / "commitlog").iterdir() if path.read_bytes().strip(b"\0")]
    for path in [*used, *(store / "config").iterdir()]:
        copy = tmp_path / "new" / path.relative_to(store)
        assert copy.read_bytes() == path.read_bytes(), path.name
    assert (tmp_path / "new" / "abort").exists()
    assert not (tmp_path / "new" / "checkpoint").exists()
    assert not (tmp_path / "new.restoring").exists()


def test_a_replicas_epochs_are_part_of_it_and_its_name_is_not(store: Path, tmp_path: Path) -> None:
    epochs = b"2\n1-0\n3-4096\n"
    (store / "epochFileCheckpoint").write_bytes(epochs)
    (store / "config" / "replication.json").write_text('{"epoch": 3, "bootId": "this one"}')
    (store / "config" / "replication.json.bak").write_text("damaged")
    (store / "brokerIdentity").write_text("cluster#broker-a#2")
    back_up(Disk(), store, tmp_path / "copy", clock=ManualClock())
    restore(Disk(), tmp_path / "copy", tmp_path / "new")
    assert (tmp_path / "new" / "epochFileCheckpoint").read_bytes() == epochs
    kept = json.loads((tmp_path / "new" / "config" / "replication.json").read_text())
    assert kept == {"epoch": 3, "bootId": "lost"}, "it does not lead before it has caught up"
    assert (tmp_path / "new" / "config" / "replication.json.bak").read_text() == "damaged"
    assert not (tmp_path / "new" / "brokerIdentity").exists()


def test_a_store_in_use_is_copied_up_to_its_confirm_offset_with_its_log_held(
    store: Path, tmp_path: Path
) -> None:
    pins = Pins()
    with LogFiles(Disk(), store / "commitlog") as files:
        end = [item.at for item in scan(files)][200]

    def confirmed() -> LogOffset:
        pin = pins.lowest()
        assert pin is not None
        assert pin.offset == 0
        assert "backup" in pin.owner
        # How far groups have come is copied before this moment, and topics after it.
        names = {path.name for path in (tmp_path / "copy" / "config").iterdir()}
        assert "consumerOffset.json" in names
        assert "topics.json" not in names
        return end

    done = back_up(
        Disk(), store, tmp_path / "copy", clock=ManualClock(), pins=pins, confirmed=confirmed
    )
    assert pins.lowest() is None
    assert done.end_offset == end
    restore(Disk(), tmp_path / "copy", tmp_path / "new")
    assert records(tmp_path / "new") == records(store)[:200]
    assert (tmp_path / "new" / "config" / "topics.json").exists()


def test_a_queue_whose_messages_have_all_expired_keeps_its_place(
    store: Path, tmp_path: Path
) -> None:
    queue = store / "consumequeue" / "old" / "3"
    queue.mkdir(parents=True)
    entries = b"".join(queue_entry(1000 * number, 200, 0) for number in range(7))
    (queue / f"{4000:020d}").write_bytes(entries.ljust(2000, b"\0"))
    for number in range(3):
        (store / "commitlog" / f"{number * SEGMENT:020d}").unlink()
    done = back_up(Disk(), store, tmp_path / "copy", clock=ManualClock())
    kept = [file.name for file in done.files if file.name.startswith("consumequeue")]
    assert kept == [f"consumequeue/old/3/{4000:020d}"]
    restore(Disk(), tmp_path / "copy", tmp_path / "new")
    opened = MessageStore.open(
        StoreConfig(root=tmp_path / "new", index_slots=500, index_entries=2000),
        disk=Disk(),
        clock=ManualClock(),
        store_host=bytes(8),
        threads=False,
    )
    assert opened.max_offset("old", 3) == 207
    assert opened.min_offset("old", 3) == 207
    assert opened.max_offset("orders", 1) == 83
    opened.close()
    report = check_store(Disk(), tmp_path / "new")
    assert report.ok, report.lines()


def test_a_damaged_record_is_not_backed_up_as_if_it_were_whole(store: Path, tmp_path: Path) -> None:
    path = store / "commitlog" / f"{3 * SEGMENT:020d}"
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreDamaged, match=f"{3 * SEGMENT:020d}"):
        back_up(Disk(), store, tmp_path / "copy", clock=ManualClock())
    with pytest.raises(BackupDamaged, match="not completed"):
        restore(Disk(), tmp_path / "copy", tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("change", ["flip", "cut", "remove"])
def test_a_backup_that_changed_is_refused_and_nothing_restored(
    store: Path, tmp_path: Path, change: str
) -> None:
    copy = tmp_path / "copy"
    back_up(Disk(), store, copy, clock=ManualClock())
    path = copy / "commitlog" / f"{SEGMENT:020d}"
    data = bytearray(path.read_bytes())
    data[777] ^= 8
    if change == "remove":
        path.unlink()
    else:
        path.write_bytes(data if change == "flip" else data[: SEGMENT // 2])
    with pytest.raises((BackupDamaged, DiskError), match=f"{SEGMENT:020d}"):
        restore(Disk(), copy, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_manifest_that_changed_or_leads_outside_is_refused(store: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    back_up(Disk(), store, copy, clock=ManualClock())
    text = (copy / MANIFEST).read_text()
    (copy / MANIFEST).write_text(text.replace('"format": 1', '"format": 2'))
    with pytest.raises(SnapshotDamaged):
        restore(Disk(), copy, tmp_path / "new")
    lines = [line for line in text.splitlines() if "crc32" not in line]
    outside = "\n".join(lines).replace("config/topics.json", "config/../../x", 1)
    (copy / MANIFEST).write_text(outside)
    with pytest.raises(SnapshotDamaged, match="no backup has"):
        restore(Disk(), copy, tmp_path / "new")


def test_nothing_is_written_over(store: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    back_up(Disk(), store, copy, clock=ManualClock())
    with pytest.raises(StoreError, match="not empty"):
        back_up(Disk(), store, copy, clock=ManualClock())
    with pytest.raises(StoreError, match="not empty"):
        restore(Disk(), copy, store)
    (tmp_path / "new.restoring").mkdir()
    (tmp_path / "new.restoring" / "abort").touch()
    with pytest.raises(StoreError, match="restoring is not empty"):
        restore(Disk(), copy, tmp_path / "new")
    shutil.rmtree(tmp_path / "new.restoring")
    (tmp_path / "new").mkdir()
    restore(Disk(), copy, tmp_path / "new")
    assert records(tmp_path / "new") == records(store)


HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))


def put(number: int) -> Put:
    return Put(
        topic="ours",
        queue_id=number % 3,
        body=b"%d" % number * 20,
        properties=b"KEYS\x01k%d\x02" % number,
        flag=0,
        sys_flag=0,
        born_ms=number,
        born_host=HOST,
    )


def small(root: Path) -> StoreConfig:
    return StoreConfig(
        root=root, segment_bytes=16384, queue_file_bytes=2000, index_slots=50, index_entries=200
    )


def test_a_copy_taken_under_load_is_the_store_of_one_moment(tmp_path: Path) -> None:
    root, pins = tmp_path / "ours", Pins()
    mine = MessageStore.open(small(root), disk=Disk(), clock=ManualClock(), store_host=HOST)
    for number in range(300):
        mine.append([[put(number)]])
    done: list[Backup] = []

    def copy() -> None:
        done.append(
            back_up(
                Disk(),
                root,
                tmp_path / "copy",
                clock=ManualClock(),
                pins=pins,
                confirmed=lambda: mine.positions.confirmed,
            )
        )

    copying = threading.Thread(target=copy)
    copying.start()
    number = 300
    while copying.is_alive() and number < 20_000:
        mine.append([[put(number)], [put(number + 1), put(number + 2)]])
        mine.dispatch()
        number += 3
    copying.join()
    mine.dispatch()
    mine.close()
    restore(Disk(), tmp_path / "copy", tmp_path / "new")
    found = records(tmp_path / "new")
    assert len(found) >= 300
    assert found == records(root)[: len(found)]
    again = MessageStore.open(
        small(tmp_path / "new"), disk=Disk(), clock=ManualClock(), store_host=HOST, threads=False
    )
    assert again.positions.written == done[0].end_offset
    assert sum(again.max_offset("ours", queue) for queue in range(3)) == len(found)
    again.close()
    report = check_store(Disk(), tmp_path / "new")
    assert report.ok, report.lines()


class FailingDisk(Disk):
    """A disk whose n-th change of names fails."""

    def __init__(self, fail_at: int) -> None:
        self.left = fail_at

    def _count(self, operation: str, path: Path) -> None:
        self.left -= 1
        if self.left == 0:
            raise DiskError(operation, path, OSError(errno.EIO, "on purpose"))

    def create(self, path: Path) -> DiskFile:
        self._count("create", path)
        return super().create(path)

    def rename(self, old: Path, new: Path) -> None:
        self._count("rename", old)
        super().rename(old, new)

    def make_directory(self, path: Path) -> None:
        self._count("make directory", path)
        super().make_directory(path)

    def sync_directory(self, directory: Path) -> None:
        self._count("sync directory", directory)
        super().sync_directory(directory)


def test_wherever_a_restore_fails_the_store_is_whole_or_not_there(
    store: Path, tmp_path: Path
) -> None:
    back_up(Disk(), store, tmp_path / "copy", clock=ManualClock())
    new = tmp_path / "new"
    for fail_at in range(1, 200):
        try:
            restore(FailingDisk(fail_at), tmp_path / "copy", new)
        except DiskError:
            if new.exists():
                assert records(new) == records(store)
                shutil.rmtree(new)
            shutil.rmtree(tmp_path / "new.restoring", ignore_errors=True)
            continue
        assert fail_at > 30
        assert records(new) == records(store)
        return
    pytest.fail("it never completed")


def test_a_backup_without_its_manifest_is_none(tmp_path: Path) -> None:
    with pytest.raises(BackupDamaged, match="not completed"):
        read_manifest(Disk(), tmp_path)
