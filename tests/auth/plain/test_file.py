"""A plain_acl.yml that changes while a server runs."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from rocketpipe.auth.plain.acl import PlainAclRefused
from rocketpipe.auth.plain.file import LOOK_EVERY_MS, PlainAclFile
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.subject import User, UserType
from rocketpipe.auth.users import AuthLent, PolicyTable, UserTable
from rocketpipe.store.files.disk import Disk
from rocketpipe.testing.clock import ManualClock

ADMIN = "accounts:\n- accessKey: admin-key\n  secretKey: admins-secret-text\n  admin: true\n"
ALICE = "- accessKey: alice-key\n  secretKey: alices-secret-text\n  topicPerms: [a=PUB]\n"
ROOT = User(name="root", secret=Secret("roots-secret-text"), type=UserType.SUPER)


class Place:
    """A file, the tables, and looks at it."""

    def __init__(self, directory: Path, text: str, *, ignored: bool = False) -> None:
        self.path = directory / "plain_acl.yml"
        self.users: UserTable = UserTable.opened(Disk(), directory / "auth")
        self.policies: PolicyTable = PolicyTable.opened(Disk(), directory / "auth")
        self._stamps = 0
        self.write(text)
        self.file = PlainAclFile(self.path, self.users, self.policies, white_lists_ignored=ignored)

    def write(self, text: str) -> None:
        self.path.write_text(text)
        self._stamps += 1
        os.utime(self.path, ns=(self._stamps, self._stamps))

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.users.all()]

    async def look(self, times: int = 2) -> None:
        for _ in range(times):
            await self.file.look_again()


async def test_accounts_come_change_and_go_with_the_file(tmp_path: Path) -> None:
    place = Place(tmp_path, ADMIN + ALICE)
    place.users.put(ROOT)
    place.file.load()
    assert place.names == ["admin-key", "alice-key", "root"]
    assert place.policies.get("User:alice-key") is not None
    version = place.users.version
    await place.look()
    assert place.users.version is version
    place.write(ADMIN)
    await place.look(1)
    assert place.names == ["admin-key", "alice-key", "root"], "not while it may be written still"
    await place.look(1)
    assert place.names == ["admin-key", "root"]
    assert place.policies.get("User:alice-key") is None
    kept: UserTable = UserTable.opened(Disk(), tmp_path / "auth")
    assert [each.name for each in kept.all()] == ["root"], "accounts are on no disk of ours"


async def test_a_file_that_is_refused_changes_nothing_and_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(tmp_path, ADMIN + ALICE)
    place.file.load()
    for text in (ADMIN + ALICE + "  half", ADMIN + "- accessKey: x\n", ALICE_ALONE):
        caplog.clear()
        place.write(text)
        await place.look(5)
        assert place.names == ["admin-key", "alice-key"]
        assert len([each for each in caplog.records if each.levelno == logging.WARNING]) == 1
    place.path.unlink()
    caplog.clear()
    await place.look(5)
    assert place.names == ["admin-key", "alice-key"]
    assert len(caplog.records) == 1
    place.write(ADMIN)
    await place.look()
    assert place.names == ["admin-key"]


ALICE_ALONE = "accounts:\n" + ALICE


async def test_nobody_is_left_without_somebody_who_may_do_everything(tmp_path: Path) -> None:
    place = Place(tmp_path, ADMIN)
    place.file.load()
    place.write(ALICE_ALONE)
    await place.look()
    assert place.names == ["admin-key"]
    place.users.put(ROOT)
    place.write(ALICE_ALONE + "\n")
    await place.look()
    assert place.names == ["alice-key", "root"]


def test_white_lists_stop_the_start_unless_they_are_to_be_ignored(tmp_path: Path) -> None:
    text = "globalWhiteRemoteAddresses: [10.1.2.3]\n" + ADMIN
    with pytest.raises(PlainAclRefused, match=r"line 1: [^\n]*\n.*aclAllowWhiteList=true"):
        Place(tmp_path, text).file.load()
    place = Place(tmp_path, text, ignored=True)
    place.file.load()
    assert place.names == ["admin-key"]


class Changing(type(Path())):  # type: ignore[misc]
    """A file that somebody writes to whenever it is opened to be read."""

    def open(self, mode: str = "r", *rest: Any, **named: Any) -> Any:
        if mode == "rb":
            with Path(self).open("a") as file:
                file.write(" ")
        return super().open(mode, *rest, **named)


async def test_half_of_a_file_is_never_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its other half may take away what this one grants."""
    place = Place(tmp_path, ADMIN + ALICE)
    place.file.load()
    place.write(ADMIN)
    await place.look(1)
    place.file._path = Changing(place.path)
    await place.look(4)
    assert place.names == ["admin-key", "alice-key"]
    assert "was changed while it was read" in caplog.text
    with pytest.raises(PlainAclRefused, match="changed while it was read"):
        place.file.load()
    place.file._path = place.path
    place.write(ADMIN)
    await place.look()
    assert place.names == ["admin-key"]


async def test_a_file_that_others_may_write_is_not_taken(tmp_path: Path) -> None:
    place = Place(tmp_path, ADMIN + ALICE)
    place.path.chmod(0o664)
    with pytest.raises(PlainAclRefused, match="can be written by others"):
        place.file.load()
    place.path.chmod(0o644)
    place.file.load()
    place.write(ADMIN)
    place.path.chmod(0o646)
    await place.look()
    assert place.names == ["admin-key", "alice-key"]


def test_an_account_changes_in_its_file_alone(tmp_path: Path) -> None:
    place = Place(tmp_path, ADMIN + ALICE)
    place.file.load()
    alice = place.users.get("alice-key")
    assert alice is not None
    with pytest.raises(AuthLent, match=r"alice-key is an account of .*plain_acl\.yml"):
        place.users.put(alice.rotated(Secret("another-secret-text"), 1))
    with pytest.raises(AuthLent):
        place.users.remove("alice-key")
    with pytest.raises(AuthLent):
        place.policies.remove("User:alice-key")
    place.users.put(ROOT)
    assert place.users.remove("root")


async def test_it_is_looked_at_every_five_seconds(tmp_path: Path) -> None:
    place, clock = Place(tmp_path, ADMIN + ALICE), ManualClock()
    place.file.load()
    place.write(ADMIN)
    following = asyncio.create_task(place.file.follow(clock))
    try:
        async with asyncio.timeout(PATIENCE_S):
            while place.names != ["admin-key"]:
                await clock.advance(LOOK_EVERY_MS)
                await asyncio.to_thread(len, "")  # what was begun on a thread goes on
    finally:
        following.cancel()
