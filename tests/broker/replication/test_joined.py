"""The highest epoch joined: never forgotten, whatever happens to the disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketpipe.broker.replication.joined import JoinedEpoch
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.snapshot import SnapshotDamaged
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.sim_fault import PowerCut

PATH = Path("/store/config/replication.json")


def loaded(disk: Disk, path: Path = PATH) -> JoinedEpoch:
    joined = JoinedEpoch(disk, path)
    joined.load()
    return joined


def test_nothing_was_joined_at_first() -> None:
    joined = loaded(SimDisk())
    assert (joined.epoch, joined.tables_applied) == (0, 0)


def test_what_was_joined_survives_a_power_cut() -> None:
    disk = SimDisk()
    joined = loaded(disk)
    joined.save(tables_applied=12)
    joined.join(7)
    disk.crash(keep="nothing")
    joined = loaded(disk)
    assert (joined.epoch, joined.tables_applied) == (7, 12)


def test_a_lower_epoch_changes_nothing() -> None:
    disk = SimDisk()
    joined = loaded(disk)
    joined.join(7)
    asked = len(disk.trace)
    joined.join(7)
    joined.join(3)
    assert joined.epoch == 7
    assert len(disk.trace) == asked


def test_a_power_cut_never_takes_back_what_was_joined() -> None:
    finished = 0
    for at in range(1, 40):
        disk = SimDisk(seed=at)
        joined = loaded(disk)
        joined.join(4)
        disk.cut_power(at=at)
        try:
            joined.join(5)
        except PowerCut:
            least = 4
        else:
            least, finished = 5, finished + 1
        disk.heal()
        disk.crash()
        assert least <= loaded(disk).epoch <= 5
    assert finished


def test_the_version_before_has_the_epoch_too(tmp_path: Path) -> None:
    path = tmp_path / "replication.json"
    joined = loaded(Disk(), path)
    joined.join(6)
    joined.join(7)
    path.write_bytes(b"torn")
    assert loaded(Disk(), path).epoch == 7


def test_the_file_is_json(tmp_path: Path) -> None:
    path = tmp_path / "replication.json"
    loaded(Disk(), path).join(7)
    assert json.loads(path.read_bytes())["epoch"] == 7


@pytest.mark.parametrize("text", [b"[]", b'{"epoch":-1}', b'{"epoch":"x"}', b"{"])
def test_what_cannot_be_read_is_not_taken_for_nothing(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "replication.json"
    path.write_bytes(text)
    with pytest.raises(SnapshotDamaged):
        loaded(Disk(), path)


def test_whose_epochs_they_are_is_remembered_with_the_first_that_is_joined(tmp_path: Path) -> None:
    path = tmp_path / "replication.json"
    here, elsewhere = "cluster#broker-a", "cluster#broker-b"

    def of(group: str) -> JoinedEpoch:
        joined = JoinedEpoch(Disk(), path, group)
        joined.load()
        return joined

    assert not of(here).is_of_group
    of(here).join(7)
    assert of(here).is_of_group
    assert not of(elsewhere).is_of_group
    of(elsewhere).join(5)
    assert of(elsewhere).is_of_group
    assert of(elsewhere).epoch == 7
