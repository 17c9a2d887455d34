"""The file that says which replica a directory is."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

import pytest

from rocketpipe.broker.replication.identity import IDENTITY_FILE, Identity, WrongIdentity
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.sim_fault import PowerCut

ROOT = Path("/data")


def identity(disk: Disk, name: str = "broker-a", cluster: str = "DefaultCluster") -> Identity:
    return Identity(disk, ROOT, cluster=cluster, name=name)


def test_nothing_is_known_before_an_id_was_given_and_then_it_is_for_good() -> None:
    disk = SimDisk()
    assert identity(disk).load() is None
    identity(disk).keep(2)
    disk.crash("nothing")
    assert identity(disk).load() == 2
    assert disk.content(ROOT / IDENTITY_FILE) == b"DefaultCluster#broker-a#2"


@pytest.mark.parametrize(
    "text", [b"Other#broker-a#2", b"DefaultCluster#broker-b#2", b"DefaultCluster#broker-a#x#2"]
)
def test_data_of_another_group_is_refused_by_name(text: bytes) -> None:
    disk = SimDisk()
    disk.make_directory(ROOT)
    disk.put(ROOT / IDENTITY_FILE, text)
    with pytest.raises(WrongIdentity, match="this data is not of broker-a in DefaultCluster"):
        identity(disk).load()


@pytest.mark.parametrize(
    "text", [b"", b"DefaultCluster#broker-a", b"a#b#0", b"a#b#-1", b"a#b#\xc2\xb2", b"\xff" * 9999]
)
def test_a_file_that_names_nobody_is_refused(text: bytes) -> None:
    disk = SimDisk()
    disk.make_directory(ROOT)
    disk.put(ROOT / IDENTITY_FILE, text)
    with pytest.raises(WrongIdentity, match="does not name a replica"):
        identity(disk).load()


def test_a_name_with_a_mark_of_the_format_in_it_is_read_back() -> None:
    disk = SimDisk()
    identity(disk, name="a#1").keep(7)
    assert identity(disk, name="a#1").load() == 7


def test_a_file_that_cannot_be_read_is_not_taken_for_none() -> None:
    disk = SimDisk()
    identity(disk).keep(2)
    disk.fail(errno=errno.EACCES)
    with pytest.raises(DiskError):
        identity(disk).load()


def test_a_crash_while_it_is_kept_does_not_hinder_the_next_start() -> None:
    for at in range(1, 12):
        disk = SimDisk(at)
        disk.cut_power(at=at)
        with suppress(PowerCut):
            identity(disk).keep(3)
            disk.heal()
        disk.crash("everything")
        assert identity(disk).load() in (None, 3)
        identity(disk).keep(3)
        assert identity(disk).load() == 3
