"""Streaming queries whose driver, workers or broker are killed, then started again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from tests.faults.support.restarting_servers import immortal
from tests.scenarios.support import killed_query

from rocketpipe import Producer
from rocketpipe.testing import serving

MESSAGES = 90


def send(name_server: str) -> None:
    async def work() -> None:
        async with Producer(name_server) as producer:
            for number in range(MESSAGES):
                await producer.send("killed", b"%d" % number, timeout_ms=30_000)

    asyncio.run(work())


def run(name_server: str, directory: Path, step: str, *more: str) -> int:
    """Run the query once; its whole family is gone afterwards."""
    with (directory / "query.log").open("ab") as log:
        program = subprocess.Popen(
            [sys.executable, killed_query.__file__, name_server, str(directory), step, *more],
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
    try:
        return program.wait(200)
    finally:
        try:
            os.killpg(program.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        program.wait()


def read_back(directory: Path) -> Counter[int]:
    table = ds.dataset(directory / "out", format="parquet", exclude_invalid_files=True).to_table()
    places = zip(*(table[name].to_pylist() for name in ("queue_id", "queue_offset")), strict=True)
    assert max(Counter(places).values()) == 1
    return Counter(int(body) for body in table["body"].to_pylist())


def check(steps: tuple[str, ...], directory: Path) -> None:
    with serving(directory) as servers:
        send(servers.name_server)
        for step in steps:
            assert run(servers.name_server, directory, step) != 0, step
            assert (directory / f"died-{step}").exists()
        assert run(servers.name_server, directory, "none") == 0
    assert read_back(directory) == Counter(range(MESSAGES))


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.parametrize("step", [step for step in killed_query.STEPS if step != "broker"])
def test_a_query_that_is_killed_anywhere_reads_every_message_once(
    tmp_path: Path, step: str
) -> None:
    check((step,), tmp_path)


@pytest.mark.spark
@pytest.mark.soak
def test_a_query_whose_broker_is_killed_reads_every_message_once(
    tmp_path: Path, lasting_port: int
) -> None:
    with immortal(tmp_path, lasting_port) as servers:
        send(servers.name_server)
        # The query may outlive the broker's death, or end of it and be started again.
        victim = servers.pid_file.read_text()
        ran = run(servers.name_server, tmp_path, "broker", victim)
        assert (tmp_path / "died-broker").exists()
        assert ran == 0 or run(servers.name_server, tmp_path, "none") == 0
        assert servers.deaths == 1
    assert read_back(tmp_path) == Counter(range(MESSAGES))
