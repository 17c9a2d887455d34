"""A ZooKeeper of tests: found by name, and gone with whoever started it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import until

from rocketpipe.testing.ensemble import (
    Ensemble,
    ZooKeeperFailed,
    ZooKeeperNode,
    _nodes,
)

STARTS_AND_WAITS = """
import sys
from pathlib import Path
from rocketpipe.testing.ensemble import ZooKeeperNode
node = ZooKeeperNode(Path(sys.argv[1]), ["sleep", "1000"], 1)
node.start()
print(node._pid, flush=True)
sys.stdin.read()
"""


def test_three_nodes_know_each_other_and_one_is_alone(tmp_path: Path) -> None:
    (alone,) = _nodes(tmp_path / "one", 1, [2181])
    assert alone.address == "127.0.0.1:2181"
    assert "server." not in (alone.directory / "zoo.cfg").read_text()
    nodes = _nodes(tmp_path / "three", 3, range(1, 10))
    texts = {(node.directory / "zoo.cfg").read_text().partition("server.1")[2] for node in nodes}
    assert texts == {"=127.0.0.1:4:5\nserver.2=127.0.0.1:6:7\nserver.3=127.0.0.1:8:9\n"}
    with pytest.raises(ValueError, match="9 ports"):
        _nodes(tmp_path, 3, [1])


def test_a_node_that_does_not_start_shows_its_log(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo no disk today >&2"]
    node = ZooKeeperNode(tmp_path, command, 1)
    with pytest.raises(ZooKeeperFailed, match="no disk today"):
        Ensemble([node]).start()
    node.stop()
    assert not node.running


def test_nodes_end_with_whoever_started_them_even_if_that_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_AND_WAITS, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        assert _runs(pid)
        starter.kill()
    asyncio.run(until(lambda: not _runs(pid)))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
