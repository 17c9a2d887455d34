"""Spark's sink at every step where something can die: no row twice, none lost, none early."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.faults.spark_sink import FILES, KILLS_DRIVER, ROWS
from tests.pipeline.sinks import messages_in

from rocketpipe.testing.servers import serving

PROGRAM = Path(__file__).parent / "spark_sink.py"
#: How often a driver may be started again: Spark gives its workers ten seconds to start.
LIVES = 5

FEW = ("stream-rand-task_error", "stream-rand-in_write", "stream-rand-after_commit")
FEW_JOBS = ("batch-rr-after_commit",)
ALL_STREAMS = tuple(
    f"stream-{plan}-{fault}"
    for plan in ("rr", "rand", "resplit")
    for fault in ("task_error", "worker_kill", *KILLS_DRIVER)
)
ALL_JOBS = tuple(
    f"batch-{plan}-{fault}"
    for plan in ("rr", "rand")
    for fault in ("task_error", "worker_kill", *KILLS_DRIVER)
)


def outlive(root: Path, cases: tuple[str, ...]) -> None:
    """Run jobs until all have ended, through all their deaths, and look at what the topics hold."""
    rows = root / "rows"
    rows.mkdir()
    for number in range(FILES):
        first = number * ROWS // FILES
        table = pa.table({"v": pa.array(range(first, first + ROWS // FILES), pa.int64())})
        pyarrow.parquet.write_table(table, rows / f"{number}.parquet")
    for case in cases:
        directory = root / "cases" / case
        directory.mkdir(parents=True)
        if case.rpartition("-")[2] in KILLS_DRIVER:
            (directory / "waits").touch()
    with serving(root) as servers:
        command = [sys.executable, str(PROGRAM), servers.name_server, str(root), *cases]
        for _ in range(LIVES):
            ended = subprocess.run(
                command, capture_output=True, text=True, timeout=150, check=False
            )
            if ended.returncode == 0:
                break
        assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
        for case in cases:
            assert (root / "cases" / case / "fired").exists(), f"{case} met no fault"
            found = sorted(int(m.body) for m in messages_in(servers.name_server, case))
            assert found == list(range(ROWS)), case


@pytest.mark.spark
def test_rows_show_once_through_deaths_of_tasks_and_driver(tmp_path: Path) -> None:
    outlive(tmp_path, FEW + FEW_JOBS)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize("cases", [ALL_STREAMS[:6], ALL_STREAMS[6:12], ALL_STREAMS[12:], ALL_JOBS])
def test_rows_show_once_through_every_death(tmp_path: Path, cases: tuple[str, ...]) -> None:
    outlive(tmp_path, cases)
