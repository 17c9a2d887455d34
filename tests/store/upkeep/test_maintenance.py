"""What is done to a store that nobody uses."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import view_records
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.errors import RecordCorrupt, StoreDamaged, StoreLocked
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.queues.entries import queue_entry
from rocketpipe.store.upkeep.check import check_store
from rocketpipe.store.upkeep.log_scan import LogFiles, Scanned, scan
from rocketpipe.store.upkeep.maintenance import (
    dump,
    dump_queue,
    export_range,
    rebuild_derived,
    truncate,
)
from rocketpipe.store.upkeep.rebuild_parts import one_after_the_other
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.sim_fault import PowerCut

STORES = ["4.9.7-stop", "4.9.7-kill", "5.5.0-stop", "5.5.0-kill"]
SEGMENT = 65536
HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))


@pytest.fixture
def store(tmp_path: Path, unpack_golden: Callable[..., Path]) -> Path:
    return unpack_golden("5.5.0-stop", tmp_path)


@pytest.fixture(params=STORES)
def each_store(
    request: pytest.FixtureRequest, tmp_path: Path, unpack_golden: Callable[..., Path]
) -> tuple[str, Path]:
    return request.param, unpack_golden(request.param, tmp_path)


def config(root: Path) -> StoreConfig:
    return StoreConfig(
        root=root,
        segment_bytes=SEGMENT,
        queue_file_bytes=2000,
        index_slots=500,
        index_entries=2000,
    )


def opened(root: Path) -> MessageStore:
    return MessageStore.open(
        config(root), disk=Disk(), clock=ManualClock(), store_host=HOST, threads=False
    )


def put(number: int, *, queue_id: int = 0) -> Put:
    return Put(
        topic="ours",
        queue_id=queue_id,
        body=b"%d" % number,
        properties=b"KEYS\x01k%d\x02TAGS\x01t\x02" % number,
        flag=0,
        sys_flag=0,
        born_ms=number,
        born_host=HOST,
    )


@pytest.fixture
def our_store(tmp_path: Path) -> Path:
    """A store of our own: singles, groups of three, over several segments."""
    root = tmp_path / "ours"
    small = StoreConfig(
        root=root, segment_bytes=4096, queue_file_bytes=200, index_slots=20, index_entries=80
    )
    mine = MessageStore.open(
        small, disk=Disk(), clock=ManualClock(), store_host=HOST, threads=False
    )
    for number in range(30):
        mine.append([[put(number)], [put(number, queue_id=1 + extra) for extra in range(3)]])
        mine.flush()
        mine.dispatch()
    mine.close()
    return root


def records(root: Path) -> list[Scanned]:
    with LogFiles(Disk(), root / "commitlog") as files:
        return [item for item in scan(files) if isinstance(item, Scanned)]


def patch(path: Path, at: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + len(data)] = data
    path.write_bytes(content)


# Looking


def test_a_dump_names_every_record_and_every_damage(store: Path) -> None:
    bad = records(store)[100]
    patch(store / "commitlog" / f"{bad.at - bad.at % SEGMENT:020d}", bad.at % SEGMENT + 8, b"xxxx")
    lines = list(dump(Disk(), store))
    assert len(lines) == 395
    assert lines[0].text.startswith("0 orders@")
    assert "KEYS='A0 B0'" in lines[0].text
    assert lines[0].record is not None
    assert lines[100].record is None
    assert lines[100].text.startswith(f"{bad.at} damaged: ")
    assert f"next record at {records(store)[100].at}" in lines[100].text


def test_a_dump_goes_from_one_record_to_another(store: Path) -> None:
    places = [item.at for item in records(store)]
    lines = list(dump(Disk(), store, places[10], places[20]))
    assert [line.at for line in lines] == places[10:20]


def test_a_queue_is_dumped_entry_by_entry(store: Path) -> None:
    lines = list(dump_queue(Disk(), store, "log", 0))
    assert len(lines) == 40
    assert lines[39].startswith("39 log_offset=747695 size=")


def test_exported_records_are_those_of_the_range_and_can_be_read_again(
    store: Path, tmp_path: Path
) -> None:
    whole = records(store)
    count = export_range(Disk(), store, tmp_path / "out", whole[10].at, whole[300].at)
    assert count == 290
    data = (tmp_path / "out").read_bytes()
    assert data == b"".join(item.record for item in whole[10:300])
    assert len(list(view_records(data))) == 290
    some = export_range(Disk(), store, tmp_path / "some", wanted=lambda view: view.topic == "log")
    assert some == 40
    with pytest.raises(DiskError):
        export_range(Disk(), store, tmp_path / "out")


def test_an_export_stops_at_damage_and_starts_at_records_only(store: Path, tmp_path: Path) -> None:
    whole = records(store)
    with pytest.raises(RecordCorrupt):
        export_range(Disk(), store, tmp_path / "no", LogOffset(whole[5].at + 1))
    bad = whole[100]
    patch(store / "commitlog" / f"{bad.at - bad.at % SEGMENT:020d}", bad.at % SEGMENT + 8, b"xxxx")
    with pytest.raises(StoreDamaged) as caught:
        export_range(Disk(), store, tmp_path / "part")
    assert (caught.value.at, caught.value.next_good) == (bad.at, whole[101].at)
    assert (tmp_path / "part").read_bytes() == b"".join(item.record for item in whole[:100])


# Mending


def test_rebuilt_queues_and_index_are_those_that_apaches_broker_had(
    each_store: tuple[str, Path],
) -> None:
    name, root = each_store
    before = {
        path.relative_to(root): path.read_bytes()
        for path in (root / "consumequeue").rglob("*")
        if path.is_file()
    }
    (old_index,) = (path.read_bytes() for path in (root / "index").iterdir())
    for path in list((root / "consumequeue").rglob("0000*"))[::2]:
        patch(path, 4, b"\x99\x99")
    (index,) = (root / "index").iterdir()
    patch(index, 2100, bytes(40))
    assert rebuild_derived(config(root), Disk(), ManualClock()) == len(records(root))
    for path, data in before.items():
        assert (root / path).read_bytes() == data, path
    (new_index,) = (path.read_bytes() for path in (root / "index").iterdir())
    if name.startswith("4.9.7"):  # 5.5.0 has entries for tags beside those for keys
        assert new_index == old_index
    report = check_store(Disk(), root)
    assert report.ok, report.lines()
    assert report.clean_stop


def test_rebuilding_keeps_the_place_of_a_queue_whose_messages_have_expired(store: Path) -> None:
    queue = store / "consumequeue" / "old" / "3"
    queue.mkdir(parents=True)
    entries = b"".join(queue_entry(1000 * number, 200, 0) for number in range(7))
    for base in (2000, 4000):
        (queue / f"{base:020d}").write_bytes(entries.ljust(2000, b"\0"))
    for number in range(3):
        (store / "commitlog" / f"{number * SEGMENT:020d}").unlink()
    rebuild_derived(config(store), Disk(), ManualClock())
    mine = opened(store)
    assert mine.max_offset("old", 3) == 207
    assert mine.max_offset("orders", 1) == 83
    mine.close()
    assert check_store(Disk(), store).ok


def test_a_store_of_ours_is_rebuilt_as_it_was(our_store: Path) -> None:
    assert check_store(Disk(), our_store).ok
    before = {
        path.relative_to(our_store): path.read_bytes()
        for path in our_store.rglob("*")
        if path.is_file() and "consumequeue" in path.parts
    }
    for room in ("consumequeue", "index"):
        shutil.rmtree(our_store / room)
    small = StoreConfig(
        root=our_store, segment_bytes=4096, queue_file_bytes=200, index_slots=20, index_entries=80
    )
    assert rebuild_derived(small, Disk(), ManualClock()) == 120
    for path, data in before.items():
        assert (our_store / path).read_bytes() == data, path
    report = check_store(Disk(), our_store)
    assert report.ok, report.lines()
    assert report.unsealed == 0


def test_a_damaged_log_is_not_rebuilt_from(store: Path) -> None:
    bad = records(store)[100]
    patch(store / "commitlog" / f"{bad.at - bad.at % SEGMENT:020d}", bad.at % SEGMENT + 8, b"xxxx")
    with pytest.raises(StoreDamaged):
        rebuild_derived(config(store), Disk(), ManualClock())


# Cutting


def test_a_truncated_log_ends_where_it_was_cut_and_the_rest_follows(
    each_store: tuple[str, Path],
) -> None:
    _, root = each_store
    whole = records(root)
    cut = whole[250].at
    done = truncate(config(root), Disk(), ManualClock(), cut)
    assert done.end == whole[249].at + len(whole[249].record)
    assert records(root) == whole[:250]
    report = check_store(Disk(), root)
    assert report.ok, report.lines()
    assert done.kept_in is not None
    kept = done.kept_in.read_bytes()
    assert kept.startswith(whole[250].record)
    assert kept.endswith(whole[-1].record)
    mine = opened(root)
    assert mine.positions.written == done.end
    mine.close()


@pytest.mark.parametrize("where", ["first", "segment", "end"])
def test_a_log_may_be_cut_at_its_start_between_segments_and_at_its_end(
    store: Path, where: str
) -> None:
    whole = records(store)
    end = LogOffset(whole[-1].at + len(whole[-1].record))
    offset = {"first": LogOffset(0), "segment": LogOffset(5 * SEGMENT), "end": end}[where]
    done = truncate(config(store), Disk(), ManualClock(), offset)
    kept = [item for item in whole if item.at < offset]
    assert records(store) == kept
    assert done.end == (kept[-1].at + len(kept[-1].record) if kept else 0)
    assert (done.kept_in is None) == (where == "end")
    report = check_store(Disk(), store)
    assert report.ok, report.lines()


def test_a_group_that_would_be_cut_in_two_goes_as_a_whole(our_store: Path) -> None:
    small = StoreConfig(
        root=our_store, segment_bytes=4096, queue_file_bytes=200, index_slots=20, index_entries=80
    )
    whole = records(our_store)
    done = truncate(small, Disk(), ManualClock(), whole[42].at)  # 40 is single, 41 to 43 a group
    assert records(our_store) == whole[:41]
    assert done.end <= whole[41].at
    report = check_store(Disk(), our_store)
    assert report.ok, report.lines()


def test_after_a_cut_appends_go_on_with_the_next_offset(our_store: Path) -> None:
    small = StoreConfig(
        root=our_store, segment_bytes=4096, queue_file_bytes=200, index_slots=20, index_entries=80
    )
    whole = records(our_store)
    truncate(small, Disk(), ManualClock(), whole[40].at)
    mine = MessageStore.open(
        small, disk=Disk(), clock=ManualClock(), store_host=HOST, threads=False
    )
    (((placed),),) = mine.append([[put(99)]])
    assert placed.queue_offset == QueueOffset(10)
    assert placed.log_offset == whole[40].at
    mine.close()
    assert check_store(Disk(), our_store).ok


def test_a_place_within_a_record_is_refused_and_nothing_cut(store: Path) -> None:
    whole = records(store)
    for nowhere in (whole[5].at + 1, whole[-1].at + 5000, 1 << 40, -1):
        with pytest.raises(RecordCorrupt):
            truncate(config(store), Disk(), ManualClock(), LogOffset(nowhere))
    assert records(store) == whole
    assert not (store / "quarantine").exists()


def test_a_store_in_use_is_neither_mended_nor_cut(our_store: Path) -> None:
    small = StoreConfig(
        root=our_store, segment_bytes=4096, queue_file_bytes=200, index_slots=20, index_entries=80
    )
    mine = MessageStore.open(
        small, disk=Disk(), clock=ManualClock(), store_host=HOST, threads=False
    )
    with pytest.raises(StoreLocked):
        rebuild_derived(small, Disk(), ManualClock())
    with pytest.raises(StoreLocked):
        truncate(small, Disk(), ManualClock(), LogOffset(0))
    mine.close()
    assert check_store(Disk(), our_store).records == 120


# Being interrupted

SMALL = StoreConfig(
    root=Path("/store"), segment_bytes=4096, queue_file_bytes=200, index_slots=20, index_entries=80
)


def simulated(seed: int) -> SimDisk:
    """A disk with a store of ours that was stopped in order."""
    disk = SimDisk(seed)
    mine = MessageStore.open(SMALL, disk=disk, clock=ManualClock(), store_host=HOST, threads=False)
    for number in range(12):
        mine.append([[put(number)], [put(number, queue_id=1 + extra) for extra in range(3)]])
        mine.flush()
        mine.dispatch()
    mine.close()
    return disk


def records_on(disk: SimDisk) -> list[Scanned]:
    with LogFiles(disk, SMALL.root / "commitlog") as files:
        return [item for item in scan(files) if isinstance(item, Scanned)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("what", ["truncate", "rebuild", "rebuild in parts"])
def test_whenever_the_power_goes_the_store_opens_with_all_that_was_to_stay(
    seed: int, what: str
) -> None:
    fresh = simulated(seed)
    whole = records_on(fresh)
    cut = whole[20].at

    def work(disk: SimDisk) -> None:
        if what == "truncate":
            truncate(SMALL, disk, ManualClock(), cut)
        else:
            parts = one_after_the_other(disk) if "parts" in what else None
            rebuild_derived(SMALL, disk, ManualClock(), parts)

    wanted = whole[:20] if what == "truncate" else whole
    for operation in range(1 + seed, 10_000, 16):
        disk = fresh.copy(seed)
        disk.cut_power(at=operation)
        try:
            work(disk)
        except PowerCut:
            disk.crash()
            disk.heal()
        else:
            assert operation > 50
            disk.heal()
            assert records_on(disk) == wanted
            return
        MessageStore.open(
            SMALL, disk=disk, clock=ManualClock(), store_host=HOST, threads=False
        ).close()
        found = records_on(disk)
        assert found == whole[: len(found)]
        assert len(found) >= len(wanted)
        report = check_store(disk, SMALL.root)
        assert report.ok, (operation, report.lines())
        work(disk)
        assert records_on(disk) == wanted
        assert check_store(disk, SMALL.root).ok
    pytest.fail("it never completed")
