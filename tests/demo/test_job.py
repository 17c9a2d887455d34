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
from demo.proof import Proof, Stage

from demo import job
from rocketpipe.errors import RocketPipeError
from rocketpipe.projects.folder import find
from rocketpipe.projects.table_files import count_rows

DEMO = Path(job.__file__).parent
FLIGHTS = 1_500


@pytest.fixture(autouse=True)
def _signal_handlers_put_back() -> Iterator[None]:
    """The demo takes the process for its own; here it runs in that of the tests."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def start(cwd: Path, *arguments: str) -> subprocess.Popen[str]:
    """The demo as a person would start it, from a directory that is not the project's."""
    (cwd / "tmp").mkdir()
    (cwd / "here").mkdir()
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(DEMO), "--out", str(cwd / "out"), *arguments],
        cwd=cwd / "here",
        env=dict(os.environ) | {"TMPDIR": str(cwd / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def shown_in(directory: Path) -> set[str]:
    """What is there, but for the caches of tools that run beside the tests."""
    return {path.name for path in directory.iterdir() if not path.name.startswith(".")}


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def servers_of(output: str) -> list[int]:
    return [int(pid) for pid in re.findall(r"in process (\d+)", output)]


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_whole_run_proves_itself_and_leaves_report_and_tables(tmp_path: Path) -> None:
    before = shown_in(DEMO.parent)
    with start(tmp_path, "--flights", str(FLIGHTS)) as demo:
        output, errors = demo.communicate(timeout=560)
    assert demo.returncode == 0, output + errors
    assert errors == ""
    assert "All of it holds" in output
    assert "✗" not in output
    assert "the broker was killed with SIGKILL" in output
    assert "were killed with SIGKILL, within batch" in output
    assert re.search(r"while it is down, Spark reads \d+ flights from its log", output)
    assert re.search(r"broker-a-\d leads; .*; acknowledged [\d,]+, lost 0", output)
    row = f"table of flights {FLIGHTS:,} {FLIGHTS:,} 0 0 0"
    assert row in [" ".join(line.split()[1:]) for line in output.splitlines()]
    pipeline = find(tmp_path / "out" / "pipeline")
    assert count_rows(pipeline.table_files("flights")) == FLIGHTS
    assert "kills, and not one flight lost</h1>" in (tmp_path / "out" / "report.html").read_text()
    first, second = servers_of(output)
    assert not is_running(first)
    assert not is_running(second)
    assert list((tmp_path / "here").iterdir()) == []
    assert shown_in(DEMO.parent) == before


@pytest.mark.spark
def test_a_signal_ends_it_at_once_and_its_children_with_it(tmp_path: Path) -> None:
    with start(tmp_path, "--flights", str(FLIGHTS)) as demo:
        assert demo.stdout is not None
        said = ""
        while "sending" not in said:
            said += demo.stdout.readline()
        (servers,) = servers_of(said)
        assert is_running(servers)
        demo.send_signal(signal.SIGTERM)
        output, errors = demo.communicate(timeout=60)
    assert demo.returncode == 128 + signal.SIGTERM, output + errors
    assert "Interrupted" in output
    assert errors == ""
    assert not is_running(servers)
    assert not children_of(tmp_path)


def children_of(place: Path) -> list[str]:
    """The processes that were started with something in this directory."""
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in listing.stdout.splitlines() if str(place) in line]


def test_it_says_how_to_get_a_java_before_it_does_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rocketpipe.pipeline.java.find_java", lambda *args, **named: None)
    assert job.main(["--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "The demo failed: Spark needs Java 17 or newer" in said.err


def test_what_failed_is_told_with_the_end_of_the_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(count: int, place: Path, *, keep: bool) -> int:
        (place / "servers.log").write_text("".join(f"line {n}\n" for n in range(1000)))
        raise RocketPipeError("the servers did not start")

    monkeypatch.setattr(job, "run", fail)
    assert job.main(["--out", str(tmp_path / "out"), "--fast"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert "--- the end of servers.log" in lines
    assert "line 999" in lines
    assert "line 1" not in lines
    assert lines[-1] == "The demo failed: the servers did not start"


def test_a_directory_of_someone_else_is_not_emptied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    assert job.main(["--out", str(tmp_path)]) == 1
    assert "holds something that is not a demo's" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").exists()


def test_a_directory_of_the_last_run_is(tmp_path: Path) -> None:
    job.empty(tmp_path / "out")
    (tmp_path / "out" / "old").touch()
    job.empty(tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [job.STAMP]


def test_the_exit_code_is_that_of_the_proof(capsys: pytest.CaptureFixture[str]) -> None:
    good = Stage("s", expected=1, found=1, lost=0, twice=0)
    assert job.verdict(Proof([good])) == 0
    assert job.verdict(Proof([good, Stage("s", expected=1, found=0, lost=1, twice=0)])) == 1
    assert "Not all of it holds" in capsys.readouterr().out


@pytest.mark.parametrize("count", ["0", "-1", "many", "999", "1000000"])
def test_a_count_that_makes_no_sense_is_refused(
    count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        job.main(["--flights", count])
    assert "is not a number from 1000 to 336776" in capsys.readouterr().err
