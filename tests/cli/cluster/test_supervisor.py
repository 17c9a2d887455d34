"""A whole cluster, of real processes, and what becomes of it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.cluster.support.running import cluster_up, is_alive, wait_for_end

from rocketpipe.cli.cluster import layout, leftovers, supervisor
from rocketpipe.cli.main import main
from rocketpipe.errors import ConfigError

pytestmark = pytest.mark.scenario

Rows = Callable[[Path], dict[str, Any]]
Say = Callable[..., str]


def send(name_server: str, body: str) -> None:
    assert main(["message", "send", "orders", body, "--namesrv", name_server]) == 0


def test_two_masters_over_kill_pause_and_death(tmp_path: Path, rows: Rows, say: Say) -> None:
    with cluster_up(tmp_path, "--mode", "two-masters") as up:
        name_server = up.until("ready")["namesrv"]
        found = rows(tmp_path)
        assert list(found) == ["namesrv", "broker-a", "broker-b"]
        assert [row["kind"] for row in found.values()] == ["namesrv", "broker", "broker"]
        assert [row["role"] for row in found.values()] == [None, "leader", "leader"]
        assert found["namesrv"]["address"] == name_server
        assert all(is_alive(row["pid"]) for row in found.values())
        assert set(found["broker-a"]) == set(supervisor.COLUMNS)

        say(tmp_path, "kill", "broker-a")
        dead = rows(tmp_path)["broker-a"]
        assert (dead["state"], dead["pid"], dead["role"]) == ("killed", None, None)
        assert not is_alive(found["broker-a"]["pid"])
        assert "it is killed" in say(tmp_path, "kill", "broker-a", code=1)
        say(tmp_path, "start", "broker-a")
        up.until("serves", "broker-a")
        again = up.until("leads", "broker-a")
        assert again["after_ms"] > 0
        assert again["text"].startswith("broker-a leads, after ")
        back = rows(tmp_path)["broker-a"]
        assert (back["state"], back["address"]) == ("running", found["broker-a"]["address"])
        assert back["starts"] == 2

        say(tmp_path, "pause", "broker-b")
        assert rows(tmp_path)["broker-b"]["state"] == "paused"
        say(tmp_path, "resume", "broker-b")
        up.until("leads", "broker-b")

        os.kill(found["namesrv"]["pid"], signal.SIGKILL)
        died = up.until("died", "namesrv")
        assert died["text"] == "namesrv died (SIGKILL), starts again in 2 s"
        up.until("serves", "namesrv")

        assert "there is no 'broker-c' here" in say(tmp_path, "kill", "broker-c", code=1)
        assert "neither replicas nor a coordinator" in say(tmp_path, "cut", "broker-a", code=1)
        assert "broker-a is not cut off" in say(tmp_path, "heal", "broker-a", code=1)

        running = rows(tmp_path)
        assert say(tmp_path, "down") == "everything has ended\n"
        assert up.process.wait(60) == 0
    assert not any(is_alive(row["pid"]) for row in running.values())
    assert not (tmp_path / leftovers.FILE_NAME).exists()


def test_what_was_acknowledged_is_there_after_the_supervisor_was_killed(
    tmp_path: Path, rows: Rows, say: Say, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster_up(tmp_path, "--mode", "single") as up:
        name_server = up.until("ready")["namesrv"]
        send(name_server, "kept")
        capsys.readouterr()
        first = rows(tmp_path)
        say(tmp_path, "pause", "broker-a")  # one that is stopped must not stay either
        up.end(signal.SIGKILL)
    wait_for_end(row["pid"] for row in first.values())
    assert "does not run" in say(tmp_path, "status", code=1)
    with cluster_up(tmp_path) as up:
        assert up.until("ready")["namesrv"] == name_server
        again = rows(tmp_path)
        assert {name: row["address"] for name, row in again.items()} == {
            name: row["address"] for name, row in first.items()
        }
        assert again["broker-a"]["log_end"] > 0
        capsys.readouterr()
        assert main(["topic", "show", "orders", "-o", "json", "-n", name_server]) == 0
        queues = json.loads(capsys.readouterr().out)["queues"]
        assert sum(queue["messages"] for queue in queues) == 1
        assert up.end(signal.SIGINT) == 0
        assert up.until("stopping")


def test_there_is_one_supervisor_in_a_directory(tmp_path: Path) -> None:
    with supervisor.claimed(tmp_path):
        with pytest.raises(ConfigError, match=r"a cluster runs in .* already"):
            with supervisor.claimed(tmp_path):
                pass
    with supervisor.claimed(tmp_path):
        pass


def test_another_mode_is_refused_before_anything_starts(tmp_path: Path, say: Say) -> None:
    wanted = layout.laid_out(
        None, mode=layout.Mode.SINGLE, replicas=None, zookeepers=None, session_ms=None
    )
    wanted.save(tmp_path)
    assert "this cluster is single" in say(tmp_path, "up", "--mode", "sync", code=2)
    assert "single has none" in say(tmp_path, "up", "--replicas", "3", code=2)
    assert layout.load(tmp_path) == wanted
    assert not (tmp_path / "logs").exists()


def test_what_a_broker_refuses_is_told_and_a_second_signal_ends_everything_at_once(
    tmp_path: Path, rows: Rows
) -> None:
    wrong, data = tmp_path / "wrong.conf", tmp_path / "data"
    wrong.write_text("fileReservedTime=soon\n")
    with cluster_up(data, "--mode", "single", "-c", str(wrong)) as up:
        died = up.until("died", "broker-a")
        assert "while it started" in died["text"]
        assert "fileReservedTime" in (data / "logs" / "broker-a.log").read_text()
        name_server = rows(data)["namesrv"]["pid"]
        os.kill(name_server, signal.SIGSTOP)
        os.kill(name_server, signal.SIGTERM)
        up.process.send_signal(signal.SIGINT)
        up.until("stopping")
        up.process.send_signal(signal.SIGINT)
        assert up.process.wait(60) == 0
        assert not is_alive(name_server)
