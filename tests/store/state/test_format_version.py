"""A store tells its format, and a version that does not know it changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpipe._version import __version__
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.errors import FormatUnknown
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.state.format_version import FORMAT, FormatVersion
from rocketpipe.store.upkeep.backup import back_up, restore
from rocketpipe.store.upkeep.check import check_store
from rocketpipe.store.upkeep.maintenance import (
    dump,
    dump_queue,
    export_range,
    rebuild_derived,
    truncate,
)
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.simulation.disk import SimDisk

ROOT = Path("/store")
HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
LATER = "rocketpipe store format 99\nwritten by rocketpipe 9.0\n"


def config(root: Path) -> StoreConfig:
    return StoreConfig.embedded(root, segment_bytes=4096)


def open_store(root: Path) -> MessageStore:
    return MessageStore.open(
        config(root), disk=Disk(), clock=ManualClock(), store_host=HOST, threads=False
    )


def everything(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    open_store(root).close()
    return root


@pytest.fixture
def later(store: Path) -> Path:
    (store / "format").write_text(LATER)
    return store


def test_a_new_store_tells_format_and_version(store: Path) -> None:
    assert (store / "format").read_text() == (
        f"rocketpipe store format {FORMAT}\nwritten by rocketpipe {__version__}\n"
    )
    open_store(store).close()
    assert FormatVersion(Disk(), StoreLayout(store)).check() == FORMAT


def test_a_store_of_apaches_broker_is_taken_and_marked(
    tmp_path: Path, unpack_golden: Callable[..., Path]
) -> None:
    root = unpack_golden("5.5.0-stop", tmp_path)
    assert FormatVersion(Disk(), StoreLayout(root)).check() is None
    open_store(root).close()
    assert FormatVersion(Disk(), StoreLayout(root)).check() == FORMAT


def test_a_later_format_is_refused_with_what_to_do(later: Path) -> None:
    before = everything(later)
    with pytest.raises(FormatUnknown) as refused:
        open_store(later)
    for part in ("format 99", "rocketpipe 9.0", f"reads up to {FORMAT}", "restore the backup"):
        assert part in str(refused.value)
    assert everything(later) == before
    # Nor is the directory kept from the version that can read it.
    (later / "format").unlink()
    open_store(later).close()


@pytest.mark.parametrize(
    "use",
    [
        lambda root, _: check_store(Disk(), root),
        lambda root, _: list(dump(Disk(), root)),
        lambda root, _: list(dump_queue(Disk(), root, "t", 0)),
        lambda root, other: export_range(Disk(), root, other / "out"),
        lambda root, _: rebuild_derived(config(root), Disk(), ManualClock()),
        lambda root, _: truncate(config(root), Disk(), ManualClock(), LogOffset(0)),
        lambda root, other: back_up(Disk(), root, other / "copy", clock=ManualClock()),
    ],
    ids=["check", "dump", "dump_queue", "export", "rebuild", "truncate", "backup"],
)
def test_whoever_looks_into_a_later_format_is_told(
    use: Callable[[Path, Path], object], later: Path, tmp_path: Path
) -> None:
    before = everything(later)
    with pytest.raises(FormatUnknown, match="format 99"):
        use(later, tmp_path)
    assert everything(later) == before


def test_a_backup_has_the_format_of_its_store(store: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    back_up(Disk(), store, copy, clock=ManualClock())
    restore(Disk(), copy, tmp_path / "first")
    assert (tmp_path / "first" / "format").read_bytes() == (store / "format").read_bytes()
    (copy / "format").write_text(LATER)
    with pytest.raises(FormatUnknown, match="format 99"):
        restore(Disk(), copy, tmp_path / "second")
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rocketpipe store format 0\nwritten by rocketpipe 0.1.0\n",
        "rocketpipe store format 1",
        "rocketpipe store format 1x\nwritten by rocketpipe 0.1.0\n",
        "\ufffd" * 500,
    ],
)
def test_what_is_no_mark_says_nothing_and_is_written_anew(text: str, store: Path) -> None:
    good = (store / "format").read_text()
    (store / "format").write_text(text)
    open_store(store).close()
    assert (store / "format").read_text() == good


@pytest.mark.parametrize("text", [LATER + "more\n", LATER[:30], LATER.partition("\n")[0] + "\n\0"])
def test_a_number_that_can_be_read_counts(text: str, store: Path) -> None:
    (store / "format").write_text(text)
    with pytest.raises(FormatUnknown, match="format 99"):
        open_store(store)


def test_an_older_format_is_marked_anew(store: Path) -> None:
    newer = FormatVersion(Disk(), StoreLayout(store), own=FORMAT + 1)
    assert newer.check() == FORMAT
    newer.put()
    assert newer.check() == FORMAT + 1
    with pytest.raises(FormatUnknown):
        open_store(store)


@pytest.mark.parametrize("at", range(1, 6))
def test_a_mark_is_there_as_a_whole_or_not_at_all(at: int) -> None:
    for seed in range(20):
        disk = SimDisk(seed=seed)
        disk.make_directory(ROOT)
        disk.sync_directory(Path("/"))
        mark = FormatVersion(disk, StoreLayout(ROOT))
        disk.fail(at=at, only=("create", "write", "sync", "rename", "sync directory"))
        with pytest.raises(DiskError):
            mark.put()
        disk.crash()
        assert mark.check() in (None, FORMAT)
        mark.put()
        disk.crash()
        assert mark.check() == FORMAT
