"""Which cores there are for brokers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rocketpipe.cli.serving.fleet import cores


def test_there_is_work_for_one_at_least_and_no_more_than_is_allowed() -> None:
    assert 1 <= cores.usable() <= (len(cores.allowed()) or os.cpu_count() or 1)


def test_each_gets_a_core_of_its_own_and_threads_of_one_come_last(tmp_path: Path) -> None:
    for core, siblings in ((0, "0-1"), (1, "0-1"), (2, "2-3"), (3, "2-3")):
        topology = tmp_path / f"cpu{core}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{siblings}\n")

    assert cores.placement(2, [0, 1, 2, 3], tmp_path) == [0, 2]
    assert cores.placement(4, [0, 1, 2, 3], tmp_path) == [0, 2, 1, 3]
    assert cores.placement(2, [4, 5], tmp_path) == [4, 5]


def test_where_there_are_too_few_the_system_decides(tmp_path: Path) -> None:
    assert cores.placement(3, [0, 1], tmp_path) == [None, None, None]
    assert cores.placement(1, [], tmp_path) == [None]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the platform has no such call")
def test_a_process_is_kept_on_its_core() -> None:
    core = cores.allowed()[-1]
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        cores.keep_on(process.pid, None)
        assert os.sched_getaffinity(process.pid) == set(cores.allowed())
        cores.keep_on(process.pid, core)
        assert os.sched_getaffinity(process.pid) == {core}
        process.kill()
    cores.keep_on(process.pid, core)  # it is gone, and that is no error


def test_the_least_quota_of_all_groups_counts(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/pod/container\n")
    (tmp_path / "pod" / "container").mkdir(parents=True)
    assert cores._quota(tmp_path, own) is None
    (tmp_path / "pod" / "container" / "cpu.max").write_text("max 100000\n")
    assert cores._quota(tmp_path, own) is None
    (tmp_path / "pod" / "cpu.max").write_text("250000 100000\n")
    assert cores._quota(tmp_path, own) == 2.5


def test_the_older_kind_of_groups_is_read_too(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("4:cpu,cpuacct:/docker/1\n3:memory:/docker/1\n")
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert cores._quota(tmp_path, own) is None
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("150000\n")
    assert cores._quota(tmp_path, own) == 1.5
    assert cores._quota(tmp_path, tmp_path / "nowhere") is None
