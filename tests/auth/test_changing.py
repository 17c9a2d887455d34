"""One at a time changes users, of all who have their directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketpipe.auth import changing
from rocketpipe.auth.changing import Changing
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.subject import User, UserType
from rocketpipe.auth.users import PolicyTable, UserTable
from rocketpipe.errors import RequestRejected
from rocketpipe.store.files.disk import Disk

ALICE = User(name="alice", secret=Secret("the-secret-of-alice"), type=UserType.NORMAL)


def tables(place: Path) -> tuple[UserTable, PolicyTable]:
    return UserTable.opened(Disk(), place), PolicyTable.opened(Disk(), place)


async def test_whose_turn_it_is_sees_what_the_one_before_has_done(tmp_path: Path) -> None:
    (one, ones), (two, twos) = tables(tmp_path), tables(tmp_path)
    entered = asyncio.Event()
    found: list[object] = []

    async def other() -> None:
        entered.set()
        async with Changing(two, twos):
            found.append(two.get("alice"))

    async with Changing(one, ones):
        waiting = asyncio.create_task(other())
        await entered.wait()
        await asyncio.sleep(0)
        assert not found
        await asyncio.to_thread(one.put, ALICE)
    await waiting
    assert found == [ALICE]


async def test_who_waits_too_long_is_told_so_and_a_failure_lets_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changing, "PATIENCE_S", 0.0)
    one, two = Changing(*tables(tmp_path)), Changing(*tables(tmp_path))
    async with one:
        with pytest.raises(RequestRejected, match="somebody else changes users"):
            await two.__aenter__()
    with pytest.raises(ZeroDivisionError):
        async with two:
            raise ZeroDivisionError
    async with one:
        pass


async def test_tables_that_nobody_keeps_need_no_file() -> None:
    async with Changing(UserTable.in_memory(ALICE), PolicyTable.in_memory()):
        pass
