"""Users in the files of servers that do not run: the way back in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.cli.access.support.guarded import SECRET, guarded

from rocketpipe.auth.secret import Secret
from rocketpipe.auth.subject import User, UserStatus, UserType
from rocketpipe.auth.users import UserTable
from rocketpipe.blocking import Admin, Session
from rocketpipe.cli.access.stopped import StillRunning, StoppedServers, stopped
from rocketpipe.cli.main import main
from rocketpipe.client.admin.access.users import UserAdmin
from rocketpipe.errors import ConfigError
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.roster import begun
from rocketpipe.store.state.run_files import locked
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.sim_fault import PowerCut

ROOT = User(name="root", secret=Secret("roots-secret-text"), type=UserType.SUPER)


@pytest.mark.scenario
def test_who_was_locked_out_comes_in_again(tmp_path: Path) -> None:
    with guarded(tmp_path) as running:
        data = str(tmp_path / "store")
        words = ["user", "create", "rescue", "--super", "--data", data]
        assert main(words) == 2, "not while it runs"
        with (
            Session(running.name_server, access_key="root", secret_key=SECRET) as session,
            Admin(session) as admin,
        ):
            admin.users.create("second", "seconds-secret-text", is_super=True)
            admin.users.rotate("second", "nobody-knows-this-one")
            admin.users.disable("root")
    key = tmp_path / "rescue.key"
    key.write_text("the-way-back-in-again\n")
    assert main([*words, "--secret-file", str(key)]) == 0
    assert main(["user", "enable", "root", "--data", data]) == 0
    with guarded(tmp_path) as running:
        for name, secret in (("root", SECRET), ("rescue", "the-way-back-in-again")):
            with (
                Session(running.name_server, access_key=name, secret_key=secret) as session,
                Admin(session) as admin,
            ):
                assert len(admin.users.show("rescue").servers) == 2


def test_a_directory_that_somebody_has_or_nobody_knows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no directory"), stopped(tmp_path / "nowhere"):
        pass
    with (
        locked(Disk(), StoreLayout(tmp_path)),
        pytest.raises(StillRunning, match="leave --data out"),
        stopped(tmp_path),
    ):
        pass


def test_a_directory_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(ConfigError, match="sudo -u"), stopped(tmp_path):
        pass


def test_where_users_are_kept(tmp_path: Path) -> None:
    def places() -> list[str]:
        with stopped(tmp_path) as found:
            return [str(Path(name).relative_to(tmp_path)) for name in found.tables]

    assert places() == ["config"]
    (tmp_path / "namesrv").mkdir()
    assert places() == ["config", "namesrv/auth"]
    UserTable.opened(Disk(), tmp_path / "config").put(ROOT)
    assert places() == ["config"], "where some have users, the others have none"
    UserTable.opened(Disk(), tmp_path).put(ROOT)
    assert places() == ["."], "it is a directory of users itself"


async def test_some_of_them_are_asked_alone(tmp_path: Path) -> None:
    for name in "ab":
        UserTable.opened(Disk(), tmp_path / name).put(ROOT)
    users = UserAdmin(StoppedServers(Disk(), {name: tmp_path / name for name in "ab"}))
    assert (await users.at({"b": ""}).create("alice", "alices-secret-text")).done == ("b",)
    assert (await users.show("alice")).missing == ("a",)


@pytest.mark.parametrize("change", ["create", "rotate", "disable", "delete"])
async def test_whenever_it_is_killed_the_same_again_finishes_it(change: str) -> None:
    places = {"a": Path("/a"), "b": Path("/b")}
    for step in range(1, 200):
        disk = SimDisk(seed=step)
        for place in places.values():
            users: UserTable = UserTable.opened(disk, place)
            users.put(ROOT)
            if change != "create":
                users.put(User(name="alice", secret=Secret("alices-secret-text")))
        disk.cut_power(at=step)
        try:
            await _do(change, UserAdmin(StoppedServers(disk, places)))
            return
        except PowerCut:
            disk.crash()
        users_left = UserAdmin(StoppedServers(disk, places))
        assert (await users_left.show("root")).servers == ("a", "b")
        await _do(change, users_left, again=True)
        for place in places.values():
            alice = UserTable.opened(disk, place).get("alice")
            if change == "delete":
                assert alice is None
            else:
                assert alice is not None
                wanted = UserStatus.DISABLE if change == "disable" else UserStatus.ENABLE
                assert alice.status is wanted
                if change == "rotate":
                    texts = [each.reveal() for each in alice.secrets_at(0)]
                    assert texts == ["alices-other-secret", "alices-secret-text"]
    pytest.fail("it was never whole")


async def _do(change: str, users: UserAdmin, *, again: bool = False) -> None:
    if change == "create":
        found = await users.find("alice")
        if found is None or found.missing:
            await users.create("alice", "alices-secret-text", where_missing=again)
    elif change == "rotate":
        await users.rotate("alice", "alices-other-secret", old_until_ms=1_000)
    elif change == "disable":
        await users.disable("alice")
    elif await users.find("alice") is not None:
        await users.delete("alice")


def test_users_that_several_brokers_have_in_common_are_found(tmp_path: Path) -> None:
    disk = Disk()
    begun("broker-a", taken=False).grown(2).save(tmp_path, disk)
    common = StoreLayout(tmp_path).config
    common.mkdir()
    UserTable.opened(disk, common).put(
        User(name="admin", secret=Secret("a-secret-of-some-length"), type=UserType.SUPER)
    )
    with stopped(tmp_path) as servers:
        (users, _) = servers.tables[str(common)]
        assert [user.name for user in users.all()] == ["admin"]
        assert list(servers.tables) == [str(common)]
