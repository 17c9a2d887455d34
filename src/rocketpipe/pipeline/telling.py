"""How Spark's Python processes tell a user what is wrong: in a sentence, and once.

Spark prints the traceback of what such a process raises, and PySpark prints it once more as if it
were the caller's own. An error of ours says in its text what to do; the frames around that help
nobody but us. So Spark is asked for the text alone, as its setting ``hideTraceback`` would ask for
all errors; those that are no ``RocketPipeError`` keep their frames.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark import SparkFiles

from rocketpipe.errors import RocketPipeError

log = logging.getLogger("rocketpipe.pipeline")

#: What Spark's processes look for when they write down what was raised.
HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"


@contextmanager
def plainly() -> Iterator[None]:
    """Have Spark print the text alone of an error of ours that the block raises.

    A process of Spark's ends with what it raised, so nothing that it would do later is changed.
    """
    try:
        yield
    except RocketPipeError:
        if _applications_files() is not None:
            log.debug("raised to Spark", exc_info=True)
            os.environ[HIDE_TRACEBACK] = "1"
        raise


def is_news(what: str) -> bool:
    """Whether a Spark application was not told this yet; now it counts as told.

    Each step is planned in a process of its own: the one thing that they share, and that goes with
    the application, is the directory of its files. Without one everything is news.
    """
    files = _applications_files()
    if files is None:
        return True
    try:
        (files / f".rocketpipe-told-{what}").touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:
        return True
    return True


def _applications_files() -> Path | None:
    """Where the application keeps its files, in a process that Spark started; None in others."""
    if not SparkFiles._is_running_on_worker:  # noqa: SLF001 - in others it asks for a context
        return None
    return Path(SparkFiles.getRootDirectory())
