"""The jobs there are."""

from __future__ import annotations

import pytest

from rocketpipe.errors import ConfigError
from rocketpipe.jobs.catalogue import JOBS, job_named
from rocketpipe.jobs.options import OPTIONS, JobOptions


def test_every_job_can_be_done_and_takes_what_there_is() -> None:
    for job in JOBS:
        assert callable(job.work)
        assert set(job.needs) <= set(job.takes) <= set(OPTIONS)
    assert {name for job in JOBS for name in job.takes} == set(OPTIONS)


def test_a_name_that_is_nearly_right_is_helped_with() -> None:
    assert job_named("dead_letters").name == "dead-letters"
    with pytest.raises(ConfigError, match="did you mean archive"):
        job_named("archiv")
    with pytest.raises(ConfigError, match="there are archive, audit"):
        job_named("x")


def test_what_a_job_needs_is_asked_for() -> None:
    with pytest.raises(ConfigError, match="--store: is missing: job store-check needs --store DIR"):
        job_named("store-check").check(JobOptions())
