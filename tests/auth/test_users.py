"""Users and policies on the disk."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

import pytest

from rocketpipe.auth.policy import Action, Decision, Entry, Part, Policy, Resource
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.subject import User, UserStatus, UserType
from rocketpipe.auth.users import (
    MAX_USERS,
    AuthFileUnusable,
    AuthTableFull,
    PolicyTable,
    UserTable,
)
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.sim_fault import PowerCut

ALICE = User(name="alice", secret=Secret("alices-secret-text"), type=UserType.SUPER)
BOB = User(name="bob", secret=Secret("bobs-secret-text-1"), status=UserStatus.DISABLE)
POLICY = Policy(
    subject="User:bob",
    entries={
        Part.CUSTOM: (
            Entry(
                resource=Resource.parse("Topic:o*"),
                actions=frozenset({Action.PUB, Action.SUB}),
                sources=("10.0.0.0/8",),
                decision=Decision.DENY,
            ),
        ),
        Part.DEFAULT: (Entry(resource=Resource.parse("*"), actions=frozenset({Action.ALL})),),
    },
)


def users_of(directory: Path) -> UserTable:
    table: UserTable = UserTable.opened(Disk(), directory)
    return table


def test_what_was_put_is_there_in_the_next_run(tmp_path: Path) -> None:
    turned = ALICE.rotated(Secret("alices-new-secret"), until_ms=17)
    users_of(tmp_path).put_all([turned, BOB])
    PolicyTable.opened(Disk(), tmp_path).put(POLICY)
    assert users_of(tmp_path).all() == [turned, BOB]
    assert PolicyTable.opened(Disk(), tmp_path).all() == [POLICY]


def test_only_their_owner_reads_the_files(tmp_path: Path) -> None:
    table = users_of(tmp_path)
    for user in (ALICE, BOB):
        table.put(user)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"users.json": 0o600, "users.json.bak": 0o600}


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    users_of(tmp_path).put(ALICE)
    (tmp_path / "users.json").chmod(0o640)
    with pytest.raises(AuthFileUnusable, match="chmod 600"):
        users_of(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "changed", "gone", "empty"])
def test_an_older_version_is_not_taken_for_a_damaged_one(tmp_path: Path, damage: str) -> None:
    table = users_of(tmp_path)
    table.put(BOB)
    table.put(ALICE)
    path = tmp_path / "users.json"
    text = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(text[:-20])
        case "changed":
            path.write_bytes(text.replace(b"disable", b"enable "))
        case "gone":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
    with pytest.raises(AuthFileUnusable, match=r"users\.json\.bak if nobody was"):
        users_of(tmp_path)


def test_what_was_removed_is_in_no_file(tmp_path: Path) -> None:
    table = users_of(tmp_path)
    table.put_all([ALICE, BOB])
    assert table.remove("bob")
    assert not table.remove("bob")
    for path in tmp_path.iterdir():
        assert b"bobs-secret" not in path.read_bytes()


def test_a_change_that_the_disk_refuses_is_none() -> None:
    disk = SimDisk()
    table: UserTable = UserTable.opened(disk, Path("/auth"))
    table.put(ALICE)
    version = table.version
    disk.fail(errno=errno.ENOSPC, only=("rename",))
    with pytest.raises(DiskError):
        table.put(BOB)
    assert table.get("bob") is None
    assert table.version is version


@pytest.mark.parametrize("change", ["put", "remove"])
def test_whenever_the_power_goes_there_is_the_last_version_or_the_new_one(change: str) -> None:
    for step in range(1, 40):
        disk = SimDisk(seed=step)
        table: UserTable = UserTable.opened(disk, Path("/auth"))
        table.put_all([ALICE, BOB])
        disk.cut_power(at=step)
        try:
            if change == "put":
                table.put(User(name="carol", secret=ALICE.secret))
            else:
                table.remove("bob")
            return
        except PowerCut:
            disk.crash()
        left = UserTable.opened(disk, Path("/auth"))
        names = [user.name for user in left.all()]
        assert names in (["alice", "bob"], ["alice", "bob", "carol"], ["alice"])
    pytest.fail("it was never whole")


def test_there_are_no_more_users_than_there_may_be() -> None:
    table: UserTable = UserTable.in_memory(
        *(User(name=f"u{number}", secret=ALICE.secret) for number in range(MAX_USERS))
    )
    with pytest.raises(AuthTableFull):
        table.put(ALICE)
    assert len(table) == MAX_USERS


def test_whether_somebody_may_do_everything() -> None:
    assert UserTable.in_memory(ALICE).has_super
    assert not UserTable.in_memory(BOB).has_super
