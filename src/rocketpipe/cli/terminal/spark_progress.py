"""How far Spark is with what it was asked, on the terminal while it works; elsewhere nothing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TextIO

from rocketpipe.pipeline.register import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY_S: Final = 0.3
_GONE: Final = "\r\x1b[K"


@contextmanager
def progress(spark: SparkSession, out: TextIO | None = None) -> Iterator[None]:
    """Show the tasks of whatever the block has Spark do."""
    out = out or sys.stderr
    if not out.isatty():
        yield
        return
    with _of_server(spark, out) if is_remote(spark) else _of_driver(spark, out):
        yield
    out.write(_GONE)
    out.flush()


def tasks_line(stages: Iterable[tuple[int, int]]) -> str:
    """Tasks done and tasks there are, of stages that run."""
    pairs = list(stages)
    done, total = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    return f"Spark works: {done:,} of {total:,} tasks" if total else "Spark plans"


@contextmanager
def _of_driver(spark: SparkSession, out: TextIO) -> Iterator[None]:
    tracker: Any = spark.sparkContext.statusTracker()
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(_EVERY_S):
            with suppress(Exception):  # Spark may be ending: then nobody needs to know
                infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                known = [(each.numCompletedTasks, each.numTasks) for each in infos if each]
                _draw(out, tasks_line(known))

    thread = threading.Thread(target=watch, name="spark-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@contextmanager
def _of_server(spark: SparkSession, out: TextIO) -> Iterator[None]:
    session: Any = spark

    def tell(stages: Iterable[Any] | None, **_: object) -> None:
        known = [(each.num_completed_tasks, each.num_tasks) for each in stages or ()]
        _draw(out, tasks_line(known))

    session.registerProgressHandler(tell)
    try:
        yield
    finally:
        session.removeProgressHandler(tell)


def _draw(out: TextIO, text: str) -> None:
    out.write(f"\r{text}\x1b[K")
    out.flush()
