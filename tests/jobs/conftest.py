"""Servers with messages, and runs of jobs on the one Spark of the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rocketpipe.blocking import Admin
from rocketpipe.jobs.running import JobRun, run
from rocketpipe.testing.servers import Servers, serving

RunJob = Callable[..., JobRun]


@pytest.fixture(scope="session")
def job_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with serving(tmp_path_factory.mktemp("job-servers")) as running:
        yield running


@pytest.fixture
def admin(job_servers: Servers) -> Iterator[Admin]:
    with Admin(job_servers.name_server) as asking:
        yield asking


@pytest.fixture
def run_job(job_servers: Servers, spark: SparkSession, tmp_path: Path) -> RunJob:
    """``run_job("audit", topics=["orders"])``, in a directory of this test."""

    def once(name: str, **given: Any) -> JobRun:
        return run(
            name, to=tmp_path / name, name_server=job_servers.name_server, spark=spark, **given
        )

    return once
