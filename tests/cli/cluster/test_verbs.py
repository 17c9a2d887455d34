"""The verbs of a cluster on this machine."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.ports import lasting_ports

from rocketpipe.cli.cluster import leftovers
from rocketpipe.cli.main import main
from rocketpipe.pipeline.java import find_java

Say = Callable[..., str]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["up", "--mode", "best"], "invalid"),
        (["up", "--replicas", "0"], "a whole number of 1 or more"),
        (["up", "--session", "100ms"], "from 1s to 60s is possible"),
        (["up", "--session", "soon"], "is no duration"),
        (["pause", "broker-a", "--for", "3"], "is no duration"),
        (["kill"], "required: NAME"),
    ],
)
def test_what_is_said_wrongly_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["cluster", *words])
    assert refused.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["kill", "x"], ["start", "x"], ["pause", "x"], ["cut", "x"], ["heal", "x"], ["down"]],
)
def test_nothing_is_done_where_no_cluster_is(tmp_path: Path, say: Say, words: list[str]) -> None:
    assert "there is no cluster in" in say(tmp_path / "nowhere", *words, code=1)


def test_down_ends_what_was_left_over(tmp_path: Path, say: Say) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        leftovers.keep(tmp_path, {"broker-a": process.pid})
        assert say(tmp_path, "down") == "ended what was left over: broker-a\n"
        assert process.wait() == -signal.SIGTERM


def test_zookeeper_listens_where_others_reach_it_only_if_the_user_insists(
    tmp_path: Path, say: Say
) -> None:
    assert "--insecure" in say(tmp_path, "zookeeper", "--bind", "0.0.0.0", code=2)
    assert "name one" in say(tmp_path, "zookeeper", "--port", "0", code=2)


@pytest.mark.scenario
def test_zookeeper_runs_until_a_signal(tmp_path: Path) -> None:
    if find_java({}) is None:
        pytest.skip("no Java that runs ZooKeeper")
    (port,) = lasting_ports(1)
    command = [sys.executable, "-m", "rocketpipe.cli.main", "cluster", "zookeeper"]
    with subprocess.Popen(
        [*command, "--data", str(tmp_path), "--port", str(port)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        while said and not said.startswith("ready "):
            said = process.stdout.readline()  # what ZooKeeper itself has to say
        assert said == f"ready zookeeper=127.0.0.1:{port}\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert (tmp_path / "data" / "version-2").is_dir()
