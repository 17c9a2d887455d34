"""The simulated disk: as the real one while nothing fails, and as bad as real ones when it does."""

from __future__ import annotations

import errno
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketpipe.store.files.disk import Disk, DiskError, DiskFile
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.sim_fault import PowerCut, Progress
from rocketpipe.testing.simulation.sim_file import SimFile

ROOT = Path("/store")
FILE = ROOT / "file"
SEEDS = range(200)


def fresh(seed: int = 0, **options: int) -> SimDisk:
    disk = SimDisk(seed, **options)
    disk.make_directory(ROOT)
    return disk


def durable_file(disk: SimDisk, data: bytes, path: Path = FILE) -> DiskFile:
    file = disk.create(path)
    file.write(data, at=0)
    file.sync()
    disk.sync_directory(path.parent)
    return file


def after_crashes(prepare: object, look: object) -> Counter:
    """What is seen after a crash, counted over many seeds."""
    seen: Counter = Counter()
    for seed in SEEDS:
        disk = fresh(seed)
        prepare(disk)
        disk.crash()
        seen[look(disk)] += 1
    return seen


def content(disk: SimDisk) -> bytes | None:
    return disk.content(FILE) if FILE in disk.files() else None


def test_what_was_synced_survives_every_crash() -> None:
    assert set(after_crashes(lambda disk: durable_file(disk, b"kept"), content)) == {b"kept"}


def test_what_was_not_synced_is_kept_lost_or_torn() -> None:
    def prepare(disk: SimDisk) -> None:
        durable_file(disk, b"old!" * 64).write(b"new!" * 64, at=0)

    seen = after_crashes(prepare, content)
    assert seen[b"old!" * 64] > 10
    assert seen[b"new!" * 64] > 10
    torn = [data for data in seen if data not in (b"old!" * 64, b"new!" * 64)]
    assert torn
    assert all(len(data) == 256 for data in torn)
    assert all(set(data) <= set(b"old!new!") for data in torn), "each byte is old or new"


def test_where_nothing_was_before_stale_bytes_may_appear() -> None:
    def prepare(disk: SimDisk) -> None:
        file = durable_file(disk, b"")
        file.preallocate(256)
        file.sync()
        file.write(b"new!" * 64, at=0)

    seen = after_crashes(prepare, content)
    assert [data for data in seen if set(data) - set(b"new!\0")]


def test_bytes_that_are_written_again_as_they_are_cannot_be_lost() -> None:
    data = bytes(200) + b"data" + bytes(200)

    def prepare(disk: SimDisk) -> None:
        durable_file(disk, data).write(data, at=0)

    assert set(after_crashes(prepare, content)) == {data}


def test_a_torn_write_leaves_the_synced_bytes_beside_it() -> None:
    def prepare(disk: SimDisk) -> None:
        file = durable_file(disk, b"synced" + bytes(506))
        file.write(b"x" * 506, at=6)

    assert {data[:6] for data in after_crashes(prepare, content)} == {b"synced"}


def test_unsynced_pages_reach_the_disk_in_any_order() -> None:
    def prepare(disk: SimDisk) -> None:
        file = durable_file(disk, bytes(8192))
        file.write(b"a" * 4096, at=0)
        file.write(b"b" * 4096, at=4096)

    seen = after_crashes(prepare, content)
    assert seen[b"a" * 4096 + bytes(4096)] > 2
    assert seen[bytes(4096) + b"b" * 4096] > 2


def test_a_page_never_holds_a_later_write_without_an_earlier_one() -> None:
    def prepare(disk: SimDisk) -> None:
        file = durable_file(disk, bytes(8))
        for number in range(8):
            file.write(b"x", at=number)

    whole = [data for data in after_crashes(prepare, content) if set(data) <= {0, ord("x")}]
    assert len(whole) > 4
    assert all(data.rstrip(b"\0") == b"x" * data.count(b"x") for data in whole)


def test_an_unsynced_length_is_either_the_old_or_one_it_had() -> None:
    def prepare(disk: SimDisk) -> None:
        file = durable_file(disk, b"12345678")
        file.truncate(4)
        file.truncate(6)

    seen = after_crashes(prepare, content)
    assert set(map(len, seen)) == {4, 6, 8}
    assert b"1234\0\0" in seen


def test_a_name_is_durable_only_after_its_directory_was_synced() -> None:
    def prepare(disk: SimDisk) -> None:
        disk.create(FILE).sync()

    seen = after_crashes(prepare, content)
    assert seen[None] > 10
    assert seen[b""] > 10


def test_a_renamed_file_may_have_its_new_name_without_its_bytes() -> None:
    def prepare(disk: SimDisk) -> None:
        durable_file(disk, b"old")
        file = disk.create(ROOT / "file.tmp")
        file.write(b"new", at=0)
        disk.rename(ROOT / "file.tmp", FILE)

    seen = after_crashes(prepare, content)
    assert {b"old", b"new", b""} <= set(seen)
    assert None not in seen, "a rename leaves no moment without the name"


def test_a_rename_happens_whole_or_not_at_all() -> None:
    def prepare(disk: SimDisk) -> None:
        durable_file(disk, b"moved")
        disk.rename(FILE, ROOT / "other")

    seen = after_crashes(prepare, lambda disk: tuple(path.name for path in disk.files()))
    assert set(seen) == {("file",), ("other",)}


def test_a_removed_file_may_come_back_until_the_directory_is_synced() -> None:
    def prepare(disk: SimDisk) -> None:
        durable_file(disk, b"back")
        disk.remove(FILE)

    assert set(after_crashes(prepare, content)) == {b"back", None}

    def prepare_synced(disk: SimDisk) -> None:
        prepare(disk)
        disk.sync_directory(ROOT)

    assert set(after_crashes(prepare_synced, content)) == {None}


def test_names_that_were_not_synced_are_lost_in_any_order() -> None:
    def prepare(disk: SimDisk) -> None:
        disk.create(ROOT / "a")
        disk.create(ROOT / "b")

    seen = after_crashes(prepare, lambda disk: "".join(path.name for path in disk.files()))
    assert set(seen) == {"", "a", "b", "ab"}


def test_a_sync_of_one_directory_brings_what_the_move_into_it_built_on() -> None:
    for seed in SEEDS:
        disk = fresh(seed)
        disk.make_directory(ROOT / "to")
        disk.create(FILE).sync()
        disk.rename(FILE, ROOT / "to" / "file")
        disk.sync_directory(ROOT / "to")
        disk.crash()
        assert disk.files() == [ROOT / "to" / "file"], f"seed {seed}"


def test_a_killed_process_loses_nothing_but_its_open_files() -> None:
    disk = fresh()
    file = disk.create(FILE)
    file.write(b"in the cache", at=0)
    disk.kill()
    assert disk.content(FILE) == b"in the cache"
    with pytest.raises(DiskError) as caught:
        file.write(b"from the grave", at=0)
    assert caught.value.errno == errno.EBADF
    file.close()


def test_after_a_failed_sync_the_next_one_succeeds_and_the_bytes_are_gone() -> None:
    lost = 0
    for seed in SEEDS:
        disk = fresh(seed)
        file = durable_file(disk, b"old")
        file.write(b"new", at=0)
        disk.fail(only={"sync"})
        with pytest.raises(DiskError, match="sync"):
            file.sync_data()
        assert file.read(3, at=0) == b"new", "the cache goes on lying"
        file.sync_data()
        disk.crash()
        lost += disk.content(FILE) == b"old"
    assert 50 < lost < 150


def test_forgetting_the_cache_shows_what_a_failed_sync_lost() -> None:
    seen = set()
    for seed in range(20):
        disk = fresh(seed)
        file = durable_file(disk, b"old")
        file.write(b"new", at=0)
        disk.fail(only={"sync"})
        with pytest.raises(DiskError):
            file.sync()
        file.forget_cached()
        seen.add(file.read(3, at=0))
        assert file.read(3, at=0) == disk.durable_content(FILE)
    assert seen == {b"old", b"new"}


def test_forgetting_the_cache_keeps_what_is_still_dirty() -> None:
    disk = fresh()
    file = durable_file(disk, b"old")
    file.write(b"new and longer", at=0)
    file.forget_cached()
    assert disk.content(FILE) == b"new and longer"


def test_the_nth_operation_fails_and_the_one_after_does_not() -> None:
    disk = fresh()
    file = durable_file(disk, b"")
    disk.fail(at=3, errno=errno.ENOSPC)
    file.write(b"1", at=0)
    file.write(b"2", at=1)
    with pytest.raises(DiskError) as caught:
        file.write(b"3", at=2)
    assert caught.value.no_room
    assert caught.value.written == 0
    file.write(b"4", at=2)
    assert disk.content(FILE) == b"124"


def test_a_fault_strikes_only_the_operation_and_the_path_it_was_made_for() -> None:
    disk = fresh()
    other, file = disk.create(ROOT / "other"), disk.create(FILE)
    disk.fail(only={"sync"}, path="file", times=2)
    other.sync()
    file.write(b"x", at=0)
    for _ in range(2):
        with pytest.raises(DiskError):
            file.sync()
    file.sync()


@pytest.mark.parametrize("progress", Progress)
def test_a_failing_write_says_how_much_it_took(progress: Progress) -> None:
    disk = fresh()
    file = durable_file(disk, b"")
    disk.fail(progress=progress)
    with pytest.raises(DiskError) as caught:
        file.write(b"0123456789", at=0)
    assert disk.content(FILE) == b"0123456789"[: caught.value.written]
    wanted = {Progress.NONE: {0}, Progress.SOME: set(range(11)), Progress.ALL: {10}}
    assert caught.value.written in wanted[progress]


def test_a_failed_rename_may_have_happened() -> None:
    disk = fresh()
    durable_file(disk, b"")
    disk.fail(progress=Progress.ALL)
    with pytest.raises(DiskError, match="rename"):
        disk.rename(FILE, ROOT / "new")
    assert disk.files() == [ROOT / "new"]


def test_nothing_runs_on_without_power() -> None:
    disk = fresh(3)
    file = durable_file(disk, b"old")
    disk.cut_power(at=2)
    file.write(b"new", at=0)
    try:
        with pytest.raises(PowerCut):
            file.sync()
    finally:
        with pytest.raises(PowerCut):
            disk.names(ROOT)
    disk.crash()
    assert disk.names(ROOT) == ["file"]


def test_a_full_disk_takes_what_fits_and_says_so() -> None:
    disk = fresh(capacity=3 * 4096)
    file = durable_file(disk, b"x" * 4096)
    with pytest.raises(DiskError) as caught:
        file.write(b"y" * 9000, at=4096)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.written == 8192
    assert disk.free_bytes == 0
    other = disk.create(ROOT / "other")
    with pytest.raises(DiskError) as caught:
        other.preallocate(1)
    assert caught.value.no_room
    assert other.size() == 0
    disk.remove(FILE)
    other.preallocate(3 * 4096)
    assert disk.free_bytes == 0


def test_preallocated_room_can_be_written_on_a_full_disk() -> None:
    disk = fresh(capacity=2 * 4096)
    file = disk.create(FILE)
    file.preallocate(8192)
    file.write(b"z" * 8192, at=0)
    assert disk.free_bytes == 0


def test_the_same_seed_crashes_the_same_way() -> None:
    def run(seed: int) -> list[bytes]:
        disk = fresh(seed)
        seen = []
        for number in range(5):
            file = disk.create(ROOT / f"f{number}")
            file.write(bytes(range(256)) * 40, at=0)
            disk.crash()
            seen.append(b"|".join(disk.content(path) for path in disk.files()))
        return seen

    assert run(11) == run(11)
    assert run(11) != run(12)


def test_a_copy_crashes_without_the_original() -> None:
    disk = fresh()
    file = disk.create(FILE)
    file.write(b"dirty", at=0)
    for seed in range(20):
        disk.copy(seed).crash()
    assert disk.content(FILE) == b"dirty"
    file.sync()
    disk.sync_directory(ROOT)
    assert disk.copy().durable_content(FILE) == b"dirty"


def test_in_a_calm_nothing_fails_and_nothing_counts() -> None:
    disk = fresh()
    file = durable_file(disk, b"")
    disk.fail(at=2)
    asked = disk.operations
    with disk.calm():
        for _ in range(5):
            file.sync()
    assert disk.operations == asked
    file.sync()
    with pytest.raises(DiskError):
        file.sync()


def test_a_slow_disk_is_a_callback_away() -> None:
    asked: list[str] = []
    disk = SimDisk(on_operation=lambda operation, path: asked.append(operation))
    disk.make_directory(ROOT)
    disk.create(FILE).sync_data()
    assert asked == ["make directory", "sync directory", "create", "sync"]
    assert disk.operations == 4


def test_a_flipped_bit_stays_flipped() -> None:
    disk = fresh()
    durable_file(disk, b"\x00\x00")
    disk.flip(FILE, 9)
    disk.crash()
    assert disk.content(FILE) == b"\x00\x40"


@pytest.mark.parametrize(("real", "simulated"), [(Disk, SimDisk), (DiskFile, SimFile)])
def test_nothing_goes_past_the_simulation(real: type, simulated: type) -> None:
    # There is no descriptor: it stays −1, and nobody has to let go of one.
    inherited = {"fileno", "keepers"}
    asked = {name for name in vars(real) if not name.startswith("_")} - inherited
    assert asked <= set(vars(simulated))
    assert fresh().create(FILE).fileno() == -1


def test_the_room_that_is_left_can_be_asked_for() -> None:
    disk = fresh(capacity=10 * 4096)
    durable_file(disk, b"x" * 5000)
    assert disk.usage(ROOT) == (40960, 8192, 32768)
    with pytest.raises(DiskError):
        disk.usage(ROOT / "nowhere")


def test_a_lock_is_held_until_its_file_is_closed_or_its_process_dies() -> None:
    disk = fresh()
    first, second = durable_file(disk, b""), disk.open(FILE)
    assert first.lock()
    assert first.lock()
    assert not second.lock()
    first.close()
    assert second.lock()
    disk.kill()
    assert disk.open(FILE).lock()


NAMES = st.sampled_from(["a", "b", "deep/c", "deep"])
SIZES = st.integers(0, 9000)


@settings(max_examples=60, stateful_step_count=30)
class AsTheRealOne(RuleBasedStateMachine):
    """Whatever is done to both disks, they hold the same and refuse the same."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.real_root = Path(self.directory.name)
        self.real, self.sim = Disk(), SimDisk()
        self.sim.make_directory(ROOT)
        self.files: dict[str, tuple[DiskFile, DiskFile]] = {}

    def both(self, act: object) -> object:
        outcomes = []
        for disk, root in ((self.real, self.real_root), (self.sim, ROOT)):
            try:
                outcomes.append(("done", act(disk, root)))
            except DiskError as error:
                outcomes.append((error.operation, error.errno))
        (real_way, real), (sim_way, sim) = outcomes
        if real_way == sim_way == "done" and isinstance(real, DiskFile):
            return real, sim
        assert outcomes[0] == outcomes[1]
        return None

    def opened(self, name: str, pair: object) -> None:
        if pair is not None:
            for file in self.files.pop(name, ()):
                file.close()
            self.files[name] = pair

    @rule(name=NAMES)
    def create(self, name: str) -> None:
        self.opened(name, self.both(lambda disk, root: disk.create(root / name)))

    @rule(name=NAMES, writable=st.booleans())
    def open(self, name: str, writable: bool) -> None:
        if name != "deep" or "deep" in self.files:  # Linux opens directories for reading
            act = lambda disk, root: disk.open(root / name, writable=writable)  # noqa: E731
            self.opened(name, self.both(act))

    @rule()
    def make_directory(self) -> None:
        if "deep" not in self.files:  # the real one takes any old name for a directory: EEXIST
            self.both(lambda disk, root: disk.make_directory(root / "deep"))

    @rule(old=NAMES, new=NAMES)
    def rename(self, old: str, new: str) -> None:
        if "deep" not in (old, new):  # directories are renamed by nobody
            self.both(lambda disk, root: disk.rename(root / old, root / new))

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        self.both(lambda disk, root: disk.remove(root / name))

    @rule(name=st.sampled_from(["", "deep"]))
    def look(self, name: str) -> None:
        self.both(lambda disk, root: disk.names(root / name))
        self.both(lambda disk, root: disk.sync_directory(root / name))

    def on_file(self, data: st.DataObject, act: object) -> None:
        if not self.files:
            return
        pair = self.files[data.draw(st.sampled_from(sorted(self.files)))]
        outcomes = []
        for file in pair:
            try:
                outcomes.append(act(file))
            except DiskError as error:
                outcomes.append((error.operation, error.errno in (errno.EBADF, errno.EINVAL)))
        assert outcomes[0] == outcomes[1]

    @rule(data=st.data(), at=SIZES, size=SIZES, byte=st.integers(0, 255))
    def write(self, data: st.DataObject, at: int, size: int, byte: int) -> None:
        self.on_file(data, lambda file: file.write(bytes([byte]) * size, at))

    @rule(data=st.data(), at=SIZES, size=SIZES)
    def read(self, data: st.DataObject, at: int, size: int) -> None:
        self.on_file(data, lambda file: (file.size(), file.read(size, at)))

    @rule(data=st.data(), size=SIZES)
    def truncate(self, data: st.DataObject, size: int) -> None:
        self.on_file(data, lambda file: file.truncate(size))

    @rule(data=st.data(), size=st.integers(1, 9000))
    def preallocate(self, data: st.DataObject, size: int) -> None:
        self.on_file(data, lambda file: file.preallocate(size))

    @rule(data=st.data())
    def sync(self, data: st.DataObject) -> None:
        self.on_file(data, lambda file: (file.sync_data(), file.sync(), file.forget_cached()))

    @invariant()
    def the_same_files_hold_the_same_bytes(self) -> None:
        real = {
            path.relative_to(self.real_root): path.read_bytes()
            for path in self.real_root.rglob("*")
            if path.is_file()
        }
        sim = {path.relative_to(ROOT): self.sim.content(path) for path in self.sim.files()}
        assert real == sim

    def teardown(self) -> None:
        for pair in self.files.values():
            for file in pair:
                file.close()
        self.directory.cleanup()


test_without_faults_it_does_what_the_real_disk_does = AsTheRealOne.TestCase
