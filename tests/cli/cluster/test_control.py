"""How another terminal speaks to a cluster."""

from __future__ import annotations

import asyncio
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.cli.children.child import NotPossible
from rocketpipe.cli.cluster import control


async def _echo(asked: Mapping[str, Any]) -> dict[str, Any]:
    if asked["verb"] == "fly":
        raise NotPossible("nobody here can fly")
    return {"done": dict(asked)}


async def test_what_is_asked_is_answered(tmp_path: Path) -> None:
    async with control.listening(tmp_path, _echo):
        told = await asyncio.to_thread(control.ask, tmp_path, "pause", name="x", for_ms=3)
    assert told["done"] == {"verb": "pause", "name": "x", "for_ms": 3}


async def test_what_cannot_be_done_is_an_error(tmp_path: Path) -> None:
    async with control.listening(tmp_path, _echo):
        with pytest.raises(control.ClusterRefused, match="nobody here can fly"):
            await asyncio.to_thread(control.ask, tmp_path, "fly")


async def test_only_this_user_may_connect(tmp_path: Path) -> None:
    async with control.listening(tmp_path, _echo):
        mode = (tmp_path / control.SOCKET_NAME).stat().st_mode
        assert stat.S_IMODE(mode) == 0o600
    assert not (tmp_path / control.SOCKET_NAME).exists()


async def test_a_path_that_is_too_long_for_a_socket_works_too(tmp_path: Path) -> None:
    directory = tmp_path / ("a" * 120)
    directory.mkdir()
    async with control.listening(directory, _echo):
        target = (directory / control.SOCKET_NAME).readlink()
        assert stat.S_IMODE(target.parent.stat().st_mode) == 0o700
        told = await asyncio.to_thread(control.ask, directory, "status")
        assert told["done"] == {"verb": "status"}
    assert not target.parent.exists()
    assert not (directory / control.SOCKET_NAME).is_symlink()


async def test_a_socket_that_was_left_over_is_replaced(tmp_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / control.SOCKET_NAME))
    left.close()
    with pytest.raises(control.NoClusterRuns):
        control.ask(tmp_path, "status")
    async with control.listening(tmp_path, _echo):
        await asyncio.to_thread(control.ask, tmp_path, "status")


@pytest.mark.parametrize(
    "line", [b"\n", b"{\n", b"[]\n", b"\xff\n", b"x" * (70 << 10) + b"\n", b"null\n"]
)
async def test_what_is_no_question_is_refused_and_others_are_answered(
    tmp_path: Path, line: bytes
) -> None:
    async with control.listening(tmp_path, _echo):
        reader, writer = await asyncio.open_unix_connection(tmp_path / control.SOCKET_NAME)
        writer.write(line)
        assert b"a line of JSON was expected" in await reader.readline()
        writer.close()
        await asyncio.to_thread(control.ask, tmp_path, "status")


async def test_who_asks_for_the_end_is_told_of_it(tmp_path: Path) -> None:
    ended, answered = asyncio.Event(), []

    async def end(asked: Mapping[str, Any]) -> dict[str, Any]:
        ended.set()
        await asyncio.sleep(0.01)
        answered.append(asked["verb"])
        return {"done": "everything has ended"}

    async with control.listening(tmp_path, end):
        asking = asyncio.ensure_future(asyncio.to_thread(control.ask, tmp_path, "down"))
        await ended.wait()
    assert answered == ["down"]
    assert (await asking)["done"] == "everything has ended"


def test_where_no_cluster_was_it_is_said_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(control.NoClusterRuns, match="there is no cluster in"):
        control.ask(tmp_path / "nowhere", "status")


def test_where_one_was_it_is_said_how_to_start_it(tmp_path: Path) -> None:
    (tmp_path / control.FILE_NAME).write_text("{}")
    with pytest.raises(control.NoClusterRuns, match="does not run: `rocketpipe cluster up --data"):
        control.ask(tmp_path, "status")
