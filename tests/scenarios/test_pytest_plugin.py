"""The fixture that pytest finds by itself, in the tests of somebody else's project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = """
import asyncio

import pytest

seen = []


def test_blocking(rocketpipe):
    with rocketpipe.blocking.producer() as producer:
        producer.send("orders", b"one", delay_ms=960_000)
        with rocketpipe.blocking.simple_consumer(group="shop") as consumer:
            consumer.subscribe("orders")
            assert consumer.receive(wait_ms=1) == []
            rocketpipe.clock.advance("16m")
            assert [each.body for each in consumer.receive(wait_ms=30_000)] == [b"one"]
    seen.append(rocketpipe)


def test_with_a_loop(rocketpipe):  # and no plugin for loops
    async def work():
        async with rocketpipe.producer() as producer:
            await producer.send("orders", b"two")
            await rocketpipe.kill()
            async with rocketpipe.simple_consumer(group="shop") as consumer:
                await consumer.subscribe("orders")
                assert [each.body for each in await consumer.receive(wait_ms=30_000)] == [b"two"]

    asyncio.run(work())
    seen.append(rocketpipe)


@pytest.mark.asyncio
async def test_by_pytest_asyncio(rocketpipe):
    async with rocketpipe.producer() as producer:
        await producer.send("orders", b"three")
        await rocketpipe.clock.advance("1m")
    assert rocketpipe not in seen
"""

SETTINGS = """
[pytest]
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""

UNUSED = """
import sys


def test_that_does_without():
    assert "pytest_rocketpipe" in sys.modules
    assert "rocketpipe" not in sys.modules
"""


def pytest_run(directory: Path, text: str) -> str:
    (directory / "pytest.ini").write_text(SETTINGS, encoding="utf-8")
    (directory / "test_project.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.scenario
def test_each_test_has_servers_of_its_own(tmp_path: Path) -> None:
    assert "3 passed" in pytest_run(tmp_path, PROJECT)


@pytest.mark.scenario
def test_who_does_not_use_it_pays_nothing(tmp_path: Path) -> None:
    assert "1 passed" in pytest_run(tmp_path, UNUSED)
