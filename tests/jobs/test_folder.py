"""Directories of jobs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rocketpipe.errors import ConfigError
from rocketpipe.jobs import folder as folders
from rocketpipe.jobs.errors import JobRuns, NotAJobFolder
from rocketpipe.jobs.folder import JobFolder, owner_of
from rocketpipe.jobs.outcome import Outcome

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
FOUND = Outcome(
    headline="all is <well>", figures={"rows": 3}, tables={"queues": pa.table({"queue_id": [1]})}
)


def test_a_run_is_kept_whole(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "out", "audit")
    with folder.locked():
        kept, record = folder.keep(NOON, 1.5, FOUND, "ok")
    assert sorted(each.name for each in kept.iterdir()) == [
        "queues.parquet",
        "report.html",
        "run.json",
    ]
    assert pq.read_table(kept / "queues.parquet").to_pylist() == [{"queue_id": 1}]
    assert folder.report.read_text() == (kept / "report.html").read_text()
    assert folder.runs() == [(kept, record)]
    assert (record.started, record.figures) == ("2026-05-01T12:00:00.000+00:00", {"rows": 3})
    assert owner_of(tmp_path / "out") == "audit"


def test_the_last_run_comes_first_and_the_oldest_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "KEPT_RUNS", 3)
    folder = JobFolder(tmp_path, "audit")
    with folder.locked():
        for day in range(4):
            folder.keep(NOON + timedelta(days=day), 1.0, FOUND, "ok")
        folder.keep_failure(NOON + timedelta(days=3), 1.0, "no broker", "failed")  # at one moment
    assert [record.ending for _, record in folder.runs()] == ["failed", "ok", "ok"]


def test_a_clock_that_is_set_back_loses_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "KEPT_RUNS", 2)
    folder = JobFolder(tmp_path, "audit")
    with folder.locked():
        for year, ending in ((2040, "ok"), (2026, "findings"), (2026, "failed")):
            folder.keep(NOON.replace(year=year), 1.0, FOUND, ending)
    assert [(each.started[:4], each.ending) for _, each in folder.runs()] == [
        ("2026", "failed"),
        ("2026", "findings"),
    ]


def test_what_a_killed_run_left_goes(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path, "audit")
    with folder.locked():
        folder.keep(NOON, 1.0, FOUND, "ok")
    (tmp_path / "runs" / ".draft-20260501T130000.000Z").mkdir()
    assert len(folder.runs()) == 1
    with folder.locked():
        assert not list((tmp_path / "runs").glob(".draft*"))


def test_two_runs_of_a_job_do_not_meet(tmp_path: Path) -> None:
    one, other = JobFolder(tmp_path, "audit"), JobFolder(tmp_path, "audit")
    with one.locked(), pytest.raises(JobRuns, match="runs here already"), other.locked():
        pass
    with other.locked():
        pass


def test_directories_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(NotAJobFolder, match=r"has other things in it \('mine.txt'\)"):
        JobFolder(tmp_path, "audit").check()
    with pytest.raises(NotAJobFolder, match="is a file"):
        JobFolder(tmp_path / "mine.txt", "audit").check()
    with pytest.raises(NotAJobFolder, match="no directory of a job"):
        owner_of(tmp_path)
    with JobFolder(tmp_path / "a", "audit").locked():
        pass
    with pytest.raises(NotAJobFolder, match="belongs to job audit, not skew"):
        JobFolder(tmp_path / "a", "skew").check()
    (tmp_path / "a" / "job.json").write_text(json.dumps({"v": 2}))
    with pytest.raises(NotAJobFolder, match="of version 2"):
        JobFolder(tmp_path / "a", "audit").check()
    with pytest.raises(ConfigError, match="is no directory"):
        JobFolder("s3://bucket/x", "audit")
