"""``rocketpipe top`` against real servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rocketpipe.cli.watching.top import Groups

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


async def test_of_many_groups_some_are_asked_each_time_until_all_were() -> None:
    class Many:
        asked: list[str]

        def __init__(self) -> None:
            self.asked = []
            self.groups = self.progress = self

        async def names(self) -> list[str]:
            return [f"g{number:03}" for number in range(250)]

        async def of_group(self, name: str) -> Any:
            self.asked.append(name)
            raise ConnectionLost("a:1", "away")

    from rocketpipe.errors import ConnectionLost

    admin: Any = Many()
    groups = Groups()
    for known in (100, 200, 250):
        await groups.ask(admin)
        assert len(groups.known) == known
    assert len(set(admin.asked)) == 250
    assert all(row["lag"] is None for row in groups.furthest(5)), "unknown is not zero"
