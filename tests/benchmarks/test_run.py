"""A report from end to end against the bare loop: whole, interrupted, and made once more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.broker.generator import Unavailable, compiled
from benchmarks.report.samples import Samples

pytestmark = pytest.mark.scenario

ROOT = Path(__file__).parent.parent.parent


def begin(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    try:
        compiled()
    except Unavailable as reason:
        pytest.skip(str(reason))
    command = [sys.executable, "-m", "benchmarks.report", "--quick", "--peers", "limit"]
    command += ["--samples", str(directory / "samples.json"), "--page", str(directory / "page.md")]
    return subprocess.Popen(
        [*command, *arguments],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def until_sampled(child: subprocess.Popen[str], path: Path) -> None:
    deadline = time.monotonic() + 60
    while child.poll() is None and time.monotonic() < deadline:
        if path.exists() and Samples.load(path).runs:
            return
        time.sleep(0.05)
    raise AssertionError(f"no sample: {child.communicate()[0]}")


def test_a_run_makes_the_page_and_samples_make_it_again(tmp_path: Path) -> None:
    with begin(tmp_path, "--rows", "ready,send-16x1-100,pull-8x1-100,sync-1x1-1024") as child:
        said, _ = child.communicate(timeout=100)
    assert child.returncode == 0, said
    samples = Samples.load(tmp_path / "samples.json")
    assert sorted(row for row, _ in samples.runs) == sorted(samples.titles)
    assert not samples.failures
    page = (tmp_path / "page.md").read_text()
    (tmp_path / "page.md").unlink()
    with begin(tmp_path, "--page-only") as child:
        said, _ = child.communicate(timeout=100)
    assert (tmp_path / "page.md").read_text() == page, said
    assert not list(tmp_path.glob("rocketpipe-report-*"))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_it_has(tmp_path: Path, how: int) -> None:
    with begin(tmp_path, "--rows", "send-*", "--seconds", "1") as child:
        until_sampled(child, tmp_path / "samples.json")
        child.send_signal(how)
        said, _ = child.communicate(timeout=60)
    assert child.returncode == 0, said
    samples = Samples.load(tmp_path / "samples.json")
    assert 0 < len(samples.runs) < len(samples.titles)
    assert "The run was interrupted" in (tmp_path / "page.md").read_text()
    assert not list(tmp_path.glob("rocketpipe-report-*"))


def test_a_row_or_server_that_there_is_not_is_told_in_a_line(tmp_path: Path) -> None:
    with begin(tmp_path, "--rows", "push-*") as child:
        said, _ = child.communicate(timeout=60)
    assert child.returncode == 2
    assert "no row is called 'push-*'; there are ready, idle" in said
