"""``rocketpipe job``, as far as it needs no Spark; what it runs is in tests/jobs."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rocketpipe.cli.main import main
from rocketpipe.errors import ConfigError, RocketPipeError
from rocketpipe.jobs import running
from rocketpipe.jobs.folder import JobFolder, now
from rocketpipe.jobs.outcome import Outcome
from rocketpipe.jobs.running import JobRun

FOUND = Outcome(
    headline="2 lost",
    ok=False,
    figures={"lost": 2},
    tables={
        "problems": pa.table({"topic": ["orders"] * 25, "queue_id": list(range(25))}),
        "none": pa.table({"x": pa.array([], pa.int64())}),
    },
)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Outcome | BaseException]:
    """What each run comes to; after the last one somebody presses Ctrl-C."""
    endings: list[Outcome | BaseException] = []

    def run(job: str, *, to: str, **given: Any) -> JobRun:
        if not endings:
            signal.raise_signal(signal.SIGINT)
        ending = endings.pop(0)
        if isinstance(ending, BaseException):
            raise ending
        folder = JobFolder(to, job)
        with folder.locked():
            kept, record = folder.keep(now(), 1.0, ending, "ok" if ending.ok else "findings")
        return JobRun(ending, record, kept)

    monkeypatch.setattr(running, "run", run)
    return endings


def test_the_jobs_there_are_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", "list", "-o", "json"]) == 0
    names = [row["job"] for row in json.loads(capsys.readouterr().out)]
    assert names == ["archive", "audit", "dead-letters", "delivery", "skew", "store-check"]


def test_a_job_tells_what_it_takes_and_what_it_did(
    tmp_path: Path, runs: list[Outcome | BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    runs.append(FOUND)
    to = str(tmp_path / "out")
    assert main(["job", "run", "audit", "--topic", "orders", "--to", to]) == 1
    out = capsys.readouterr().out
    assert out.startswith("2 lost\n\nproblems\nTOPIC   QUEUE ID\n")
    assert "and 5 more in " in out
    assert main(["job", "show", "audit", "--to", to, "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [each["option"] for each in shown["options"]] == ["--topic NAME", "--ledger FILE"]
    assert [(each["ending"], each["said"]) for each in shown["runs"]] == [("findings", "2 lost")]
    assert main(["job", "show", "audit", "--to", to]) == 0
    assert "findings  2 lost" in capsys.readouterr().out
    assert main(["job", "show", "skew", "--to", to]) == 2
    assert "is of job audit" in capsys.readouterr().err


def test_programs_get_json(
    tmp_path: Path, runs: list[Outcome | BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    runs.append(FOUND)
    to = str(tmp_path / "out")
    assert main(["job", "run", "audit", "--topic", "orders", "--to", to, "-o", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["figures"] == {"lost": 2}
    assert told["tables"]["problems"][1] == {"topic": "orders", "queue_id": 1}


def test_a_schedule_goes_on_after_an_error_until_ctrl_c(
    tmp_path: Path, runs: list[Outcome | BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    runs += [RocketPipeError("the broker is away\nsee the log"), Outcome(headline="all is well")]
    words = ["job", "run", "skew", "--to", str(tmp_path / "out"), "--every", "1s"]
    assert main(words) == 130
    said = capsys.readouterr()
    assert said.out.startswith("all is well\n")
    assert said.err == "rocketpipe job run: the broker is away\\nsee the log\n"


@pytest.mark.parametrize(
    ("ending", "more", "code"),
    [(RocketPipeError("away"), ["--fail-fast"], 1), (ConfigError("--topic", "is wrong"), [], 2)],
)
def test_a_schedule_ends_at_what_will_not_get_better(
    tmp_path: Path,
    runs: list[Outcome | BaseException],
    ending: RocketPipeError,
    more: list[str],
    code: int,
) -> None:
    runs.append(ending)
    assert main(["job", "run", "skew", "--to", str(tmp_path / "o"), "--every", "1h", *more]) == code


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["skew", "--every", "10ms"], "--every: is less than 1s"),
        (["skew", "--fail-fast"], "--fail-fast: is for jobs that run again"),
        (["skwe"], "did you mean skew?"),
        (["archive"], "--topic: is missing"),
        (["skew", "--conf", "x"], "is no KEY=VALUE"),
    ],
)
def test_what_makes_no_sense_is_told_in_a_line(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "out"
    assert main(["job", "run", *words, "--to", str(to)]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert not to.exists()
