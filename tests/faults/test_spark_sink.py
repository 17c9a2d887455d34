"""Spark's sink at every step where something can die: no row twice, none lost, none early."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults.support.sink_process import outlive
from tests.faults.support.spark_sink import KILLS_DRIVER

FEW = (
    "stream-rand-task_error",
    "stream-rr-worker_kill",
    "stream-rand-in_write",
    "stream-rand-after_commit",
    "stream-rr-servers_kill",
    "batch-rr-after_commit",
)
FAULTS = ("task_error", "worker_kill", "servers_kill", *KILLS_DRIVER)
ALL_STREAMS = tuple(
    f"stream-{plan}-{fault}" for plan in ("rr", "rand", "resplit") for fault in FAULTS
)
ALL_JOBS = tuple(f"batch-{plan}-{fault}" for plan in ("rr", "rand") for fault in FAULTS)


@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_rows_show_once_through_deaths_of_workers_driver_and_servers(
    tmp_path: Path, lasting_port: int
) -> None:
    outlive(tmp_path, lasting_port, FEW)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize("cases", [ALL_STREAMS[:7], ALL_STREAMS[7:14], ALL_STREAMS[14:], ALL_JOBS])
def test_rows_show_once_through_every_death(
    tmp_path: Path, lasting_port: int, cases: tuple[str, ...]
) -> None:
    outlive(tmp_path, lasting_port, cases)
