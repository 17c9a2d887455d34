"""The demo's servers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from demo import servers
from rocketpipe import Producer


async def test_they_serve_inside_the_block_and_are_gone_after_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with servers.serving(tmp_path) as name_server:
        async with Producer(name_server) as producer:
            await producer.send("orders", b"one", timeout_ms=30_000)
        said = capsys.readouterr().out
        child = int(said.split("process ")[1].split(":")[0])
        os.kill(child, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_they_are_stopped_when_the_block_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        with servers.serving(tmp_path):
            raise KeyboardInterrupt
    child = int(capsys.readouterr().out.split("process ")[1].split(":")[0])
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_servers_that_do_not_start_are_told_and_their_log_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "store").write_text("a file where the data was to go")
    with pytest.raises(servers.ServersFailed, match="did not start"):
        with servers.serving(tmp_path):
            pytest.fail("nothing can have been served")
    assert "store" in (tmp_path / servers.LOG_NAME).read_text()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(FileNotFoundError):
        with servers.serving(tmp_path):
            pytest.fail("nothing can have been served")
