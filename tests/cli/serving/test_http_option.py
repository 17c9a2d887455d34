"""The HTTP port of servers in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpipe.cli.main import main

pytestmark = pytest.mark.scenario


def lines_until_ready(lines: Iterator[str]) -> Iterator[str]:
    """The facts that a server prints before it says that it is ready, a line each."""
    for line in lines:
        if line.startswith("ready "):
            return
        if ": " in line:
            yield line


def test_a_server_tells_probes_and_scrapers_how_it_fares(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rocketpipe.cli.main", "serve", "--data", str(tmp_path)]
    command += ["--namesrv", "127.0.0.1:0", "--broker", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    with subprocess.Popen(
        [*command, "--small-files"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        try:
            assert child.stdout is not None
            lines = iter(child.stdout.readline, "")
            told = dict(line.split(": ", 1) for line in lines_until_ready(lines))
            root = told["HTTP"].split()[0]

            def page(name: str) -> str:
                with urllib.request.urlopen(f"{root}/{name}", timeout=30) as answer:
                    return str(answer.read().decode())

            assert page("healthz") == "ok\n"
            assert page("readyz") == "ready\n"
            assert json.loads(page("version"))["name"] == "rocketpipe"
            assert 'rocketmq_topic_number{cluster="DefaultCluster"' in page("metrics")
            assert told["Console"].startswith(f"{root}/ to look")
            assert "<title>RocketPipe</title>" in page("")
            assert json.loads(page("api/1/brokers"))["rows"][0]["role"] == "leader"
            token = tmp_path / "console" / "token"
            assert token.stat().st_mode & 0o777 == 0o600
        finally:
            child.terminate()
            child.wait(30)


def test_a_port_that_others_can_reach_needs_a_word_of_consent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--data", str(tmp_path), "--http", "0.0.0.0:0"]) == 2
    assert "--http: 0.0.0.0 can be reached" in capsys.readouterr().err
