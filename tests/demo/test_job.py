"""The demo from outside: what it prints, its exit code, and what it leaves behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo import job

DEMO = Path(job.__file__).parent


@pytest.fixture(autouse=True)
def _signal_handlers_put_back() -> Iterator[None]:
    """The demo takes the process for its own; here it runs in that of the tests."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def start(cwd: Path, *arguments: str, **environ: str) -> subprocess.Popen[str]:
    """The demo as a person would start it, from a directory that is not the project's."""
    (cwd / "tmp").mkdir()
    (cwd / "here").mkdir()
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(DEMO), *arguments],
        cwd=cwd / "here",
        env=dict(os.environ) | {"TMPDIR": str(cwd / "tmp")} | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def left_behind(cwd: Path) -> list[str]:
    return sorted(path.relative_to(cwd).as_posix() for path in cwd.rglob("*"))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def servers_of(output: str) -> int:
    found = re.search(r"in process (\d+)", output)
    assert found is not None
    return int(found[1])


@pytest.mark.spark
def test_the_whole_job_agrees_says_so_and_leaves_nothing_behind(tmp_path: Path) -> None:
    before = set(DEMO.parent.iterdir())
    with start(tmp_path, "--messages", "500") as demo:
        output, errors = demo.communicate(timeout=280)
    assert demo.returncode == 0, errors
    assert errors == ""
    table = [line.split() for line in output.splitlines() if line.startswith("  ")]
    assert table[0] == ["key", "sent", "consumed", "Spark"]
    assert [row[0] for row in table[1:-1]] == sorted(job.CITIES)
    assert all(row[1] == row[2] == row[3] for row in table[1:])
    assert sum(int(row[3]) for row in table[1:-1]) == 500
    assert table[-1] == ["total", "500", "500", "500"]
    assert "Every count agrees" in output
    assert left_behind(tmp_path) == ["here", "tmp"]
    assert set(DEMO.parent.iterdir()) == before
    assert not is_running(servers_of(output))


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_it_at_once_and_its_servers_with_it(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with start(tmp_path, "--messages", "1000000") as demo:
        assert demo.stdout is not None
        first = demo.stdout.readline()
        assert is_running(servers_of(first))
        assert "sending" in demo.stdout.readline()
        demo.send_signal(number)
        output, errors = demo.communicate(timeout=60)
    assert demo.returncode == code
    assert "Interrupted" in output
    assert errors == ""
    assert not is_running(servers_of(first))
    assert left_behind(tmp_path) == ["here", "tmp"]


def test_it_says_how_to_get_a_java_before_it_does_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rocketpipe.pipeline.java.find_java", lambda *args, **named: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert job.main([]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "The demo failed: Spark needs Java 17 or newer" in said.err
    assert left_behind(tmp_path) == []


def test_what_failed_is_told_with_the_end_of_the_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(expected: int, scratch: Path) -> int:
        (scratch / "servers.log").write_text("".join(f"line {n}\n" for n in range(1000)))
        raise job.servers.ServersFailed("the servers did not start")

    monkeypatch.setattr(job, "run", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert job.main([]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert "--- the end of servers.log" in lines
    assert "line 999" in lines
    assert "line 1" not in lines
    assert lines[-1] == "The demo failed: the servers did not start"
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("count", ["0", "-1", "many"])
def test_a_count_that_makes_no_sense_is_refused(
    count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        job.main(["--messages", count])
    assert "is not a number above 0" in capsys.readouterr().err
