"""Spark's own daemon, whose workers find the connector in memory.

Spark forks a Python for each step that it plans and for each task at a time, and each of them would
import the connector and its client for itself: half a second of CPU, and on a busy machine a good
part of the ten seconds that Spark gives a worker. It is set before the session is made, where this
package is installed on every node:

    spark.python.daemon.module    rocketpipe.pipeline.daemon

No thread may run where a process is forked. So what starts threads when it is imported, numpy and
pyarrow, is still left to each worker.

After each task Spark has a worker look for garbage among all that it holds, and the next task waits
for it: 40 to 60 ms, nearly all of it for modules that stay. What is there after the first task is
put aside, so that a search takes what came since.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from pyspark import daemon

MODULE: Final = "rocketpipe.pipeline.daemon"
SETTING: Final = "spark.python.daemon.module"

_READING: Final = (
    "pyspark.sql.datasource_internal",
    "rocketpipe.pipeline.source",
    "rocketpipe.pipeline.broker.offsets",
    "rocketpipe.client.consumer.pull",
)
_WRITING: Final = ("rocketpipe.pipeline.source", "rocketpipe.pipeline.writing.staged")
_WORKERS: Final = "pyspark.sql.worker"

#: By what a daemon's workers run: what they need of it. A daemon that forks once costs no more.
PRELOADED: Final[Mapping[str, Sequence[str]]] = {
    "pyspark.worker": ("pyspark.worker", *_READING),
    f"{_WORKERS}.lookup_data_sources": (f"{_WORKERS}.lookup_data_sources", "pyspark_rocketpipe"),
    f"{_WORKERS}.create_data_source": (f"{_WORKERS}.create_data_source", *_READING),
    f"{_WORKERS}.plan_data_source_read": _READING,
    f"{_WORKERS}.data_source_pushdown_filters": _READING,
    "pyspark.sql.streaming.python_streaming_source_runner": _READING,
    f"{_WORKERS}.write_into_data_source": (f"{_WORKERS}.write_into_data_source", *_WRITING),
    f"{_WORKERS}.commit_data_source_write": (f"{_WORKERS}.commit_data_source_write", *_WRITING),
    f"{_WORKERS}.python_streaming_sink_runner": (
        f"{_WORKERS}.python_streaming_sink_runner",
        *_WRITING,
    ),
}


def preload(worker: str) -> None:
    """Import what such workers need and what starts no thread; an older Spark may lack some."""
    for name in PRELOADED.get(worker, ()):
        with suppress(ImportError):
            importlib.import_module(name)


class Sparing:
    """Searches for garbage as ``gc`` does, and puts aside what the first search has left.

    Each worker is forked before its first task, so that it puts aside its own.
    """

    def __init__(self) -> None:
        self._is_first = True

    def collect(self) -> int:
        """Search among what is not put aside; gives how much was found."""
        found = gc.collect()
        if self._is_first:
            self._is_first = False
            gc.freeze()
        return found


if __name__ == "__main__":
    preload(sys.argv[1] if len(sys.argv) > 1 else "pyspark.worker")
    gc.freeze()  # so that no worker's search writes into what it shares with the others
    # A name of the module's: what its workers fail with shall be told without us.
    vars(daemon)["gc"] = Sparing()
    daemon.manager()
