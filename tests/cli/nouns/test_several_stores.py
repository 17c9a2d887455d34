"""The stores of several brokers, together; what the verbs print is in ``test_stores``."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.cli.nouns.several_stores import back_up_all, restore_all, stores_with_files
from rocketpipe.clock import SystemClock
from rocketpipe.store import roster
from rocketpipe.store.config import FlushMode
from rocketpipe.store.errors import StoreLocked
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.roster import MemberState
from rocketpipe.store.state.run_files import locked
from rocketpipe.testing.simulation.small_store import HOST, StepClock, put, small_store


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory of three, of whom the last has stored nothing."""
    root = tmp_path / "data"
    root.mkdir()
    known = roster.begun("b", taken=True).grown(3).with_state("b-1", MemberState.DRAINING)
    known.save(root)
    for member in known.brokers[:2]:
        config = small_store(member.root(root), FlushMode.ASYNC)
        store = MessageStore.open(
            config, disk=Disk(), clock=StepClock(), store_host=HOST, threads=False
        )
        store.append([[put(member.name.encode())]])
        store.close()
    return root


def test_one_that_has_stored_nothing_has_no_store(data: Path, tmp_path: Path) -> None:
    assert stores_with_files(data) == {"b": data, "b-1": data / "b-1"}
    assert stores_with_files(tmp_path) is None


def test_all_are_backed_up_and_put_back(data: Path, tmp_path: Path) -> None:
    disk, backup, again = Disk(), tmp_path / "backup", tmp_path / "again"
    stores = stores_with_files(data)
    assert stores is not None
    made = back_up_all(disk, data, stores, backup, SystemClock())
    assert list(made) == ["b", "b-1"]
    assert list(restore_all(disk, backup, again)) == [again, again / "b-1"]
    assert roster.load(again) == roster.load(data)
    assert (again / "commitlog").is_dir()


def test_a_backup_is_complete_with_who_they_are_or_not_at_all(data: Path, tmp_path: Path) -> None:
    stores = stores_with_files(data)
    assert stores is not None
    with locked(Disk(), StoreLayout(data / "b-1")), pytest.raises(StoreLocked):
        back_up_all(Disk(), data, stores, tmp_path / "backup", SystemClock())
    assert roster.load(tmp_path / "backup") is None


def test_whom_all_of_them_let_in_is_in_the_backup(tmp_path: Path) -> None:
    data, backup, again = tmp_path / "data", tmp_path / "backup", tmp_path / "again"
    (data / "config").mkdir(parents=True)
    roster.begun("b", taken=False).grown(2).save(data)
    for name in ("users.json", "acls.json"):
        (data / "config" / name).write_text("{}")
    back_up_all(Disk(), data, {}, backup, SystemClock())
    restore_all(Disk(), backup, again)
    for name in ("users.json", "acls.json"):
        assert (again / "config" / name).read_text() == "{}"
        assert (again / "config" / name).stat().st_mode & 0o777 == 0o600
