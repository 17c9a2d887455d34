"""A cluster that elects its leader, as ``rocketpipe cluster up`` runs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.cluster.support.running import cluster_up, require_zookeeper, wait_until

from rocketpipe.blocking import Producer, RocketPipeError
from rocketpipe.cli.main import main

pytestmark = pytest.mark.scenario


@pytest.fixture(autouse=True)
def _coordinator() -> None:
    require_zookeeper()


class Terminal:
    """Says verbs to the cluster in a directory."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._data = ["--data", str(directory)]
        self._capsys = capsys

    def say(self, *words: str) -> str:
        self._capsys.readouterr()
        assert main(["cluster", *words, *self._data]) == 0
        return self._capsys.readouterr().out

    def rows(self) -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in json.loads(self.say("status", "-o", "json"))}

    def in_sync(self) -> set[str]:
        return {name for name, row in self.rows().items() if row["in_sync"]}

    def ends(self) -> set[int]:
        return {row["log_end"] for row in self.rows().values() if row["kind"] == "broker"}

    def until_in_sync(self, holds: Callable[[set[str]], object]) -> None:
        wait_until(lambda: holds(self.in_sync()))


def acknowledged(producer: Producer, body: bytes) -> None:
    """Send until it is acknowledged: one that is cut off takes a while to know, and says so."""

    def taken() -> bool:
        try:
            producer.send("orders", body)
        except RocketPipeError:
            return False
        return True

    wait_until(taken)


def test_a_leader_that_is_killed_or_cut_off_is_replaced_and_followers_come_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(tmp_path, capsys)
    with cluster_up(tmp_path, "--mode", "elected", "--session", "1s") as up:
        first = up.until("leads")
        assert first["epoch"] == 1
        name_server = up.until("ready")["namesrv"]
        terminal.until_in_sync(lambda names: len(names) == 3)
        roles = [row["role"] for row in terminal.rows().values() if row["kind"] == "broker"]
        assert sorted(roles) == ["follower", "follower", "leader"]
        with Producer(name_server) as producer:
            acknowledged(producer, b"one")

            terminal.say("kill", first["name"])
            second = up.until("leads")
            assert second["name"] != first["name"]
            assert second["epoch"] > first["epoch"]
            terminal.say("start", first["name"])
            terminal.until_in_sync(lambda names: len(names) == 3)
            acknowledged(producer, b"two")

            # One follower's link to its leader is cut, the other's not.
            terminal.say("cut", first["name"])
            (other,) = terminal.rows().keys() & {"broker-a-1", "broker-a-2", "broker-a-3"} - {
                first["name"],
                second["name"],
            }
            terminal.until_in_sync(lambda names: names == {second["name"], other})
            acknowledged(producer, b"three")
            terminal.say("heal", first["name"])
            terminal.until_in_sync(lambda names: len(names) == 3)

            terminal.say("cut", second["name"])
            third = up.until("leads")
            assert third["name"] != second["name"]
            assert third["epoch"] > second["epoch"]
            acknowledged(producer, b"four")
            terminal.say("heal", second["name"])
            terminal.until_in_sync(lambda names: len(names) == 3)
        wait_until(lambda: len(terminal.ends()) == 1)
    with cluster_up(tmp_path, "--replicas", "4") as up:
        assert up.until("ready")["namesrv"] == name_server
        terminal.until_in_sync(lambda names: "broker-a-4" in names)
