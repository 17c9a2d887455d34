"""Servers in a process of their own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rocketpipe import Producer
from rocketpipe.testing import servers


async def test_they_serve_inside_the_block_and_are_gone_after_it(tmp_path: Path) -> None:
    with servers.serving(tmp_path) as running:
        async with Producer(running.name_server) as producer:
            await producer.send("orders", b"one", timeout_ms=30_000)
        os.kill(running.process.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(running.process.pid, 0)


def test_they_are_stopped_when_the_block_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        with servers.serving(tmp_path) as running:
            raise KeyboardInterrupt
    with pytest.raises(ProcessLookupError):
        os.kill(running.process.pid, 0)


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
