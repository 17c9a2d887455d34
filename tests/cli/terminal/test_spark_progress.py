from __future__ import annotations

import io
from typing import Any

from rocketpipe.cli.terminal.spark_progress import progress, tasks_line


def test_tasks_of_all_stages_are_counted() -> None:
    assert tasks_line([]) == "Spark plans"
    assert tasks_line([(1, 4), (2, 1000)]) == "Spark works: 3 of 1,004 tasks"


def test_nothing_is_shown_where_nobody_looks() -> None:
    out = io.StringIO()
    nobody: Any = None
    with progress(nobody, out):
        pass
    assert out.getvalue() == ""
