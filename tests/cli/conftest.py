"""One pair of servers for the commands of a test file, and a way to run commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.cli.main import main
from rocketpipe.testing.servers import Servers, serving


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with serving(tmp_path_factory.mktemp("servers")) as running:
        yield running


@pytest.fixture
def command(
    servers: Servers, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Run a command that must succeed; gives what it printed."""
    monkeypatch.setenv("ROCKETPIPE_NAMESRV", servers.name_server)

    def run(*words: str, code: int = 0) -> str:
        assert main(words) == code, capsys.readouterr()
        printed = capsys.readouterr()
        return printed.out if code == 0 else printed.err

    return run


@pytest.fixture
def answer(command: Callable[..., str]) -> Callable[..., Any]:
    """Run a command that must succeed; gives its answer as programs get it."""
    return lambda *words: json.loads(command(*words, "-o", "json"))


@pytest.fixture
def stopped_store(tmp_path: Path) -> Path:
    """The directory of a broker that took three messages and stopped."""
    with serving(tmp_path) as running:
        send = ["message", "send", "orders", "--lines", str(_lines(tmp_path))]
        assert main([*send, "--key", "A1", "--namesrv", running.name_server]) == 0
    return tmp_path / "store"


def _lines(directory: Path) -> Path:
    file = directory / "lines.txt"
    file.write_text("one\ntwo\nthree\n")
    return file
