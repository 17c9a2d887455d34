from __future__ import annotations

import io
import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from rocketpipe.cli.terminal.spark_progress import progress, stoppable, tasks_line


def test_tasks_of_all_stages_are_counted() -> None:
    assert tasks_line([]) == "Spark plans"
    assert tasks_line([(1, 4), (2, 1000)]) == "Spark works: 3 of 1,004 tasks"


def test_ctrl_c_stops_spark_before_pyspark_has_waited_for_its_end() -> None:
    stopped = threading.Event()

    class Context:
        """A driver that works until it is told to stop."""

        cancelAllJobs = staticmethod(stopped.set)  # noqa: N815 - Spark's name

    spark: Any = SimpleNamespace(sparkContext=Context())
    before = signal.getsignal(signal.SIGINT)

    def collected() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:  # as PySpark does it
            assert stopped.wait(60)
            raise ValueError("Job 0 cancelled")

    with pytest.raises(KeyboardInterrupt), stoppable(spark):
        collected()
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(ValueError, match="of its own"), stoppable(spark):
        raise ValueError("of its own")


def test_nothing_is_shown_where_nobody_looks() -> None:
    out = io.StringIO()
    nobody: Any = None
    with progress(nobody, out):
        pass
    assert out.getvalue() == ""
