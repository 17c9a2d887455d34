"""Runs of jobs, as far as they need no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.errors import ConfigError, ConnectionLost
from rocketpipe.jobs import catalogue
from rocketpipe.jobs.catalogue import Job
from rocketpipe.jobs.context import JobContext
from rocketpipe.jobs.errors import JobFailed
from rocketpipe.jobs.folder import JobFolder
from rocketpipe.jobs.outcome import Outcome
from rocketpipe.jobs.running import MOST_ATTEMPTS, check_cluster, run
from rocketpipe.pipeline.planning.offset_reader import UnknownTopic
from rocketpipe.pipeline.session import ClusterUnreachable, SparkPlace
from rocketpipe.testing.servers import Servers


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[Outcome | BaseException]:
    """What the job ``store-check`` comes to, run by run."""
    endings: list[Outcome | BaseException] = []

    def work(context: JobContext) -> Outcome:
        ending = endings.pop(0)
        if isinstance(ending, BaseException):
            raise ending
        return ending

    monkeypatch.setattr(Job, "work", property(lambda job: work))
    return endings


def test_what_a_run_came_to_is_kept(tmp_path: Path, done: list[Outcome | BaseException]) -> None:
    done += [Outcome(headline="two lost", ok=False), OSError("no disk\nmore"), KeyboardInterrupt()]
    to = tmp_path / "out"
    found = run("store-check", to=to, store=str(tmp_path))
    assert not found.ok
    assert (found.kept / "report.html").exists()
    with pytest.raises(OSError, match="no disk"):
        run("store-check", to=to, store=str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        run("store-check", to=to, store=str(tmp_path))
    records = [record for _, record in JobFolder(to, "store-check").runs()]
    assert [(each.ending, each.said) for each in records] == [
        ("stopped", "it was stopped"),
        ("failed", "no disk"),
        ("findings", "two lost"),
    ]


def test_a_failure_of_spark_that_passes_is_tried_again(
    tmp_path: Path, done: list[Outcome | BaseException]
) -> None:
    passing, lasting = JobFailed("job", "x"), JobFailed("job", "y")
    passing.__cause__ = RuntimeError("Python worker failed to connect back")
    lasting.__cause__ = RuntimeError("out of memory")
    done += [passing, passing, Outcome(headline="well")]
    assert run("store-check", to=tmp_path / "out", store=str(tmp_path)).ok
    done += [passing] * MOST_ATTEMPTS + [lasting]
    for _ in range(2):
        with pytest.raises(JobFailed):
            run("store-check", to=tmp_path / "out", store=str(tmp_path))
    assert not done


def test_what_is_wrong_shows_before_anything_is_made(tmp_path: Path) -> None:
    to = tmp_path / "out"
    with pytest.raises(ConfigError, match="no job 'tidy'"):
        run("tidy", to=to)
    with pytest.raises(
        ConfigError, match=r"^--\w+: .* is not there: name a file or directory that is"
    ):
        run("store-check", to=to, store=str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="name server"):
        run("store-check", to=to, store=str(tmp_path), name_server="here and there")
    with pytest.raises(ClusterUnreachable):
        run(
            "store-check",
            to=to,
            store=str(tmp_path),
            place=SparkPlace(master="spark://127.0.0.1:1"),
        )
    with pytest.raises(ConnectionLost):
        run("audit", to=to, topics=["orders"], name_server="127.0.0.1:1")
    assert not to.exists()


def test_a_topic_that_is_not_there_is_told(job_servers: Servers) -> None:
    check_cluster(job_servers.name_server, ())
    with pytest.raises(UnknownTopic):
        check_cluster(job_servers.name_server, ("nothing-like-it",))
    assert catalogue.JOBS
