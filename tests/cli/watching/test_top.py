"""``rocketpipe top`` against real servers."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

from rocketpipe import Admin, Session
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.cli.watching.top import Groups, _watch
from rocketpipe.model.group import GroupSettings
from rocketpipe.protocol.requests.groups import GroupList, UpdateAndCreateGroupList
from rocketpipe.remoting.caller import Caller
from rocketpipe.testing import cluster

pytestmark = pytest.mark.scenario

Command = Callable[..., str]
Answer = Callable[..., Any]


def test_brokers_and_those_who_are_behind_are_shown(command: Command, answer: Answer) -> None:
    command("topic", "create", "orders", "-q", "1")
    for number in range(3):
        command("message", "send", "orders", f"order {number}")
    for group, place in (("shop", "1"), ("bar", "2")):
        command("group", "create", group)
        command("offsets", "reset", group, "orders", "--to", place, "--yes")
    found = answer("top", "--once")
    (broker,) = found["brokers"]
    assert broker["broker"] == "broker-a"
    assert broker["in"] >= 0
    assert broker["disk"].endswith(" %")
    behind = [(row["group"], row["lag"]) for row in found["groups"] if row["lag"]]
    assert behind == [("shop", 2), ("bar", 1)]
    shown = command("top", "--once", "--groups", "1")
    assert "broker-a" in shown
    assert "shop" in shown
    assert "bar" not in shown


async def test_of_many_groups_some_are_asked_each_time_until_all_were(tmp_path: Path) -> None:
    names = [f"g{number:03}" for number in range(250)]
    async with cluster(tmp_path) as servers, Admin(servers.name_server) as admin:
        async with Caller() as caller:
            wanted = GroupList(groups=tuple(GroupSettings(name=name) for name in names))
            await caller.call(servers.broker, UpdateAndCreateGroupList(wanted=wanted))
        groups = Groups()
        for known in (100, 200, 250):
            await groups.ask(admin)
            assert len(groups.known) == known
        assert set(groups.known) == set(names)
        assert all(row["lag"] is None for row in groups.furthest(5)), "unknown is not zero"
        await admin.groups.delete("g007")
        await groups.ask(admin)
        assert "g007" not in groups.known


async def test_it_goes_on_when_servers_are_away_for_a_while(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = argparse.Namespace(groups=5, once=False, every=1)
    async with contextlib.AsyncExitStack() as stack:
        running = contextlib.AsyncExitStack()
        servers = await running.enter_async_context(cluster(tmp_path))
        session = Session(servers.name_server, timeout_ms=2000)
        admin = await stack.enter_async_context(Admin(session))
        printer = Printer("table")
        watching = asyncio.create_task(_watch(admin, printer, options))
        told = ""

        def says(word: str) -> Callable[[], bool]:
            def look() -> bool:
                nonlocal told
                found = capfd.readouterr()
                told += found.out + found.err
                return word in told

            return look

        await until(says("broker-a"))
        await running.aclose()
        await until(says("rocketpipe top: "))
        assert not watching.done()
        watching.cancel()
        await asyncio.wait([watching])
