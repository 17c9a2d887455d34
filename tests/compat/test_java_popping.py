"""Java's push consumers in POP mode, set by an operator, against our servers."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from tests.compat.clients.installing import java_program

from rocketpipe import SimpleConsumer
from rocketpipe.client.admin.admin import Admin
from rocketpipe.testing import cluster

pytestmark = pytest.mark.compat

VERSION = "5.3.3"
COUNT = 300


async def test_more_javas_than_queues_share_the_work_and_a_failure_comes_again(
    tmp_path: Path,
) -> None:
    java, made = java_program("Popping", "rocketmq-tools", VERSION)
    async with cluster(tmp_path / "store") as servers:
        async with Admin(servers.name_server) as admin:
            await admin.topics.create("orders", queues=2)
        program = await asyncio.create_subprocess_exec(
            str(java),
            *("-Xmx256m", f"-Duser.home={tmp_path}", "-cp", f"{made}/jars/*:{made}/classes"),
            *("Popping", servers.name_server, servers.broker, "orders", str(COUNT), "3"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(150):
            output, _ = await program.communicate()
        lines = [line.split() for line in output.decode().splitlines()]
        assert lines[-1] == ["done"]
        got = [line[1:] for line in lines[:-1]]
        times = Counter(body for _, body, _ in got)
        assert len(times) == COUNT
        assert times.pop("fail-0") == 2
        assert set(times.values()) == {1}
        assert sorted(tries for _, body, tries in got if body == "fail-0") == ["0", "1"]
        assert len({consumer for consumer, _, _ in got}) == 3
        async with SimpleConsumer(servers.name_server, group="popping") as ours:
            await ours.subscribe("orders")
            assert await ours.receive(wait_ms=2000) == [], "all of it was acknowledged"
