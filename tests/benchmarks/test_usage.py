"""What /proc says about a process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benchmarks.broker import usage


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc with one process of two threads, one of which has just ended."""
    for thread, text in (("7", "1000 5 1\n"), ("8", "234 0 9\n")):
        task = tmp_path / "7" / "task" / thread
        task.mkdir(parents=True)
        (task / "schedstat").write_text(text)
    (tmp_path / "7" / "task" / "9").mkdir()
    (tmp_path / "7" / "status").write_text(
        "Name:\tserver\nVmHWM:\t    3000 kB\nVmRSS:\t    2000 kB\nRssAnon:\t    1000 kB\n"
    )
    (tmp_path / "stat").write_text("cpu  1 2 4 1000 2000 8 16 5000 0 0\ncpu0 9 9 9 9 9 9 9 9\n")
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Some CPU: fast\n")
    return tmp_path


def test_cpu_time_is_that_of_all_threads(proc: Path) -> None:
    assert usage.cpu_ns(7, proc) == 1234


def test_cpu_time_of_a_process_that_is_gone_is_an_error(proc: Path) -> None:
    with pytest.raises(FileNotFoundError):
        usage.cpu_ns(8, proc)


def test_memory_is_in_bytes(proc: Path) -> None:
    assert usage.memory(7, proc) == usage.Memory(2000 << 10, 3000 << 10, 1000 << 10)


def test_children_count_too(proc: Path) -> None:
    (proc / "7" / "task" / "8" / "children").write_text("70 71 ")
    for child in ("70", "71"):
        task = proc / child / "task" / child
        task.mkdir(parents=True)
        (task / "schedstat").write_text("100 0 1\n")
        (task / "children").write_text("")
        (proc / child / "status").write_text("VmHWM:\t3 kB\nVmRSS:\t2 kB\nRssAnon:\t1 kB\n")

    assert usage.processes(7, proc) == [7, 70, 71]
    assert usage.cpu_ns(7, proc) == 1434
    assert usage.memory(7, proc) == usage.Memory(2004 << 10, 3006 << 10, 1002 << 10)


def test_a_machine_is_busy_while_it_neither_idles_nor_waits_nor_is_robbed(proc: Path) -> None:
    assert usage.busy_ns(proc) == 31 * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def test_a_processor_is_told_by_its_name(proc: Path) -> None:
    assert usage.processor(proc) == "Some CPU: fast"
