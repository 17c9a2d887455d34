"""What a job is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

from rocketpipe.jobs.context import JobContext
from rocketpipe.jobs.errors import JobFailed
from rocketpipe.jobs.options import JobOptions


def test_a_failure_of_spark_is_told_in_a_line(tmp_path: Path) -> None:
    spark: object = object()
    context = JobContext(
        job="audit",
        options=JobOptions(),
        name_server="127.0.0.1:1",
        data=tmp_path,
        spark=spark,  # type: ignore[arg-type]
    )
    with pytest.raises(JobFailed, match=r"^job audit: there is no such column$"), context.session():
        raise AnalysisException("there is no such column\n== SQL ==\nSELECT")
