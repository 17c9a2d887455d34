"""How far Spark is with what it was asked, on the terminal while it works; elsewhere nothing."""

from __future__ import annotations

import signal
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


def cancel(spark: SparkSession) -> None:
    """Have Spark stop what it does for us."""
    with suppress(Exception):  # it may have ended meanwhile
        if is_remote(spark):
            spark.interruptAll()
        else:
            spark.sparkContext.cancelAllJobs()


@contextmanager
def stoppable(spark: SparkSession) -> Iterator[None]:
    """Ctrl-C in the block stops what Spark does for us, and ends the block with KeyboardInterrupt.

    PySpark that is interrupted while rows come waits for the end of its job all the same: so Spark
    is told at once, by a thread, as this one may be in the middle of talking to it.
    """
    came: list[int] = []

    def heard(number: int, frame: object) -> None:
        came.append(number)
        threading.Thread(target=cancel, args=(spark,), daemon=True).start()
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:  # as where a shell has put us in the background
        signal.signal(signal.SIGINT, heard)
    try:
        yield
    except BaseException as error:
        if came:  # whatever Spark says of being stopped is not what went wrong
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)


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
