"""The process that reads the log, with a program in Spark's place."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from demo.log_reading import LogReader, LogUnread

PROGRAM = """
import json, sys
print(json.dumps("ready"), flush=True)
asked = sys.stdin.readline()
if sys.argv[2] == "lost": sys.exit(7)
print(json.dumps({"asked": asked.strip(), "store": sys.argv[1]}), flush=True)
sys.stdin.readline()
"""


def reader(place: Path, topic: str = "flights") -> LogReader:
    return LogReader(place / "store", topic, place, (sys.executable, "-c", PROGRAM))


async def test_it_waits_to_be_asked_and_answers(tmp_path: Path) -> None:
    async with reader(tmp_path) as log:
        await log.ready()
        assert await log.read() == {"asked": "read", "store": str(tmp_path / "store")}


async def test_one_that_dies_is_told_with_its_log(tmp_path: Path) -> None:
    async with reader(tmp_path, "lost") as log:
        await log.ready()
        with pytest.raises(LogUnread, match=r"see .*log_reading\.log"):
            await log.read()
