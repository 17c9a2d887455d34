"""What was asked of replicas beside what was found, and a run of that benchmark as a whole."""

from __future__ import annotations

import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest
from benchmarks.broker.generator import Sample
from benchmarks.broker.report import Cell
from benchmarks.broker.scenarios import Scenario
from benchmarks.replication.targets import ratio, targets

LOAD = Scenario(kind="send", connections=64, window=1, body_bytes=100)
ROOT = Path(__file__).parent.parent.parent


def cell(*rates: float, cpu_us: float = 10.0) -> Cell:
    return Cell(
        [
            Sample(messages_s=each, p50_ms=1, p99_ms=2, cpu_us=cpu_us, foreign_cores=0)
            for each in rates
        ]
    )


def test_rounds_are_compared_with_the_rounds_beside_them() -> None:
    # The machine was three times as slow in the second round: for both.
    assert ratio(cell(90, 30, 93), cell(100, 33, 100), attrgetter("messages_s")) == 30 / 33


def test_a_run_that_failed_gives_no_ratio() -> None:
    failed = cell(100)
    failed.failures.append("refused")
    assert ratio(failed, cell(100), attrgetter("messages_s")) is None
    assert ratio(cell(), cell(100), attrgetter("messages_s")) is None


def test_each_target_has_its_line_and_what_was_not_measured_has_none() -> None:
    cells = {
        (LOAD.name, "alone"): cell(100, cpu_us=10.2),
        (LOAD.name, "before"): cell(100, cpu_us=10),
        (LOAD.name, "async"): cell(90, cpu_us=11.22),
        (LOAD.name, "sync"): cell(60),
    }
    found = [row[:2] for row in targets(cells, [LOAD])]
    assert found == [
        ["asynchronous by no replicas: sends, 64 x 1, 100 B", "-10% sends, +10% CPU of the master"],
        ["no replicas by the commit before: sends, 64 x 1, 100 B", "+2.0% CPU"],
    ]
    cells[LOAD.name, "apache-sync"] = cell(30, cpu_us=40)
    found = [row[1:] for row in targets(cells, [LOAD]) if row[0].startswith("synchronous")]
    assert found == [["2.00 of the sends, 0.25 of the CPU of both", "1.5"]]


@pytest.mark.soak
@pytest.mark.scenario
def test_a_quick_run_gives_every_table(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    command = [sys.executable, "-m", "benchmarks.replication", "--quick", "--report", str(report)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, timeout=280)
    text = report.read_text()
    assert "failed" not in text
    for each in ("ASYNC_MASTER, a slave", "SYNC_MASTER, a slave", "by no replicas", "catching up"):
        assert each in text
