"""Files of brokers that have left, and kills between any two steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.store import roster, set_aside
from rocketpipe.store.errors import RosterUnreadable, StoreLocked
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.roster import Roster
from rocketpipe.store.state.run_files import locked

ENDS = {"orders": {0: 42, 1: 40}, "%RETRY%shop": {0: 1}}


class FailingDisk(Disk):
    """Fails at the n-th rename, as a process that is killed there."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._left = at

    def rename(self, old: Path, new: Path) -> None:
        self._left -= 1
        if self._left < 0:
            raise DiskError("rename", old, OSError("killed"))
        super().rename(old, new)


def made(data: Path) -> Roster:
    """A directory of a broker that had it alone, and another."""
    for root in (data, data / "b-1"):
        layout = StoreLayout(root)
        for directory in (layout.commit_log, layout.config, layout.queues):
            directory.mkdir(parents=True)
        (layout.commit_log / "00000000000000000000").write_text(root.name)
        layout.lock.write_text("lock")
        layout.checkpoint.write_text("")
    (data / "namesrv").mkdir()
    (data / "checkpoint.tmp").write_text("")
    known = roster.begun("b", taken=True).grown(2)
    known.save(data)
    return known


def names(directory: Path) -> set[str]:
    return {each.name for each in directory.iterdir()}


def test_a_directory_goes_as_a_whole(tmp_path: Path) -> None:
    made(tmp_path).with_leaving("b-1", delete=False).save(tmp_path)

    assert [each.name for each in set_aside.finish_leaving(tmp_path)] == ["b-1"]

    assert not (tmp_path / "b-1").exists()
    assert StoreLayout(set_aside.place_of(tmp_path, "b-1")).commit_log.is_dir()
    assert (tmp_path / "commitlog").is_dir()
    assert set_aside.finish_leaving(tmp_path) == []


def test_of_the_one_that_had_all_of_it_only_its_own_files_go(tmp_path: Path) -> None:
    made(tmp_path).with_leaving("b", delete=False).save(tmp_path)

    set_aside.finish_leaving(tmp_path)

    assert names(tmp_path) == {roster.FILE_NAME, "b-1", "namesrv", "drained"}
    place = set_aside.place_of(tmp_path, "b")
    own = {"checkpoint", "checkpoint.tmp", "commitlog", "config", "consumequeue", "lock"}
    assert names(place) == own
    assert (place / "commitlog" / "00000000000000000000").read_text() == tmp_path.name


def test_files_that_are_not_to_be_kept_are_deleted(tmp_path: Path) -> None:
    made(tmp_path).with_leaving("b-1", delete=True).save(tmp_path)

    set_aside.finish_leaving(tmp_path)

    assert not (tmp_path / "b-1").exists()
    assert names(tmp_path / "drained") == set()


@pytest.mark.parametrize("delete", [False, True])
@pytest.mark.parametrize("name", ["b", "b-1"])
def test_whenever_it_is_killed_the_next_one_finishes(
    tmp_path: Path, name: str, delete: bool
) -> None:
    for at in range(20):
        data = tmp_path / str(at)
        data.mkdir()
        made(data).with_leaving(name, delete=delete).save(data)
        try:
            set_aside.finish_leaving(data, FailingDisk(at))
            break
        except DiskError:
            set_aside.finish_leaving(data)
        known = roster.load(data)
        assert known is not None
        assert known.leaving == ()
        assert not (data / "b-1").exists() if name == "b-1" else not (data / "commitlog").exists()
        assert set_aside.place_of(data, name).is_dir() != delete
    else:
        raise AssertionError("it never came to an end")
    assert at > 0


def test_one_that_still_runs_keeps_its_files(tmp_path: Path) -> None:
    made(tmp_path).with_leaving("b-1", delete=True).save(tmp_path)
    with locked(Disk(), StoreLayout(tmp_path / "b-1")):
        with pytest.raises(StoreLocked):
            set_aside.finish_leaving(tmp_path)
        assert (tmp_path / "b-1" / "commitlog").is_dir()
    set_aside.finish_leaving(tmp_path)


def test_a_directory_of_one_has_nobody_who_leaves(tmp_path: Path) -> None:
    assert set_aside.finish_leaving(tmp_path) == []


def test_how_far_its_queues_reached_is_kept(tmp_path: Path) -> None:
    assert set_aside.load_ends(tmp_path, "b-1") is None

    set_aside.save_ends(tmp_path, "b-1", ENDS)

    assert set_aside.load_ends(tmp_path, "b-1") == ENDS
    path = tmp_path / "drained" / "b-1.json"
    path.write_bytes(path.read_bytes().replace(b"42", b"41"))
    with pytest.raises(RosterUnreadable, match=r"b-1\.json"):
        set_aside.load_ends(tmp_path, "b-1")
