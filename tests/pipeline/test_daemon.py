"""What Spark's workers find in memory."""

from __future__ import annotations

import gc
import importlib.util
import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark import daemon as spark_daemon
from pyspark.sql import SparkSession

from rocketpipe.pipeline.daemon import PRELOADED

UnpackGolden = Callable[..., Path]


def printed(program: str, *arguments: Path) -> str:
    """What a Python of its own prints, which has imported nothing and shares no garbage with us."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="nobody else tells threads")
def test_nothing_is_preloaded_that_starts_a_thread() -> None:
    """Spark forks the daemon: a thread that is there is in the middle of something."""
    program = (
        "import os, sys\n"
        "from rocketpipe.pipeline import daemon\n"
        "for worker in daemon.PRELOADED:\n"
        "    daemon.preload(worker)\n"
        "print(len(os.listdir('/proc/self/task')))\n"
        "names = ('numpy', 'pyarrow', 'rocketpipe.blocking.admin', 'rocketpipe.client.session')\n"
        "print([name for name in names if name in sys.modules])\n"
    )
    assert printed(program).splitlines() == ["1", "['rocketpipe.client.session']"]


def test_all_of_it_is_there_with_this_spark() -> None:
    named = {*PRELOADED, *(name for names in PRELOADED.values() for name in names)}
    assert [name for name in sorted(named) if importlib.util.find_spec(name) is None] == []


def test_who_plans_does_not_import_pandas(tmp_path: Path, unpack_golden: UnpackGolden) -> None:
    """Arrow imports it for the first array that it makes of anything of Python's or numpy's."""
    program = (
        "import sys\n"
        "from rocketpipe.pipeline.source import RocketPipeSource\n"
        "source = RocketPipeSource({'path': sys.argv[1], 'subscribe': 'orders'})\n"
        "parts = source.reader(source.schema()).partitions()\n"
        "import rocketpipe.pipeline.writer\n"
        "print(len(parts) > 0, 'pyarrow' in sys.modules, 'pandas' in sys.modules)\n"
    )
    store = unpack_golden("5.5.0-stop", tmp_path)
    assert printed(program, store) == "True True False\n"


def test_what_the_first_task_left_is_put_aside_and_what_comes_later_is_not() -> None:
    program = (
        "import gc\n"
        "from rocketpipe.pipeline.daemon import Sparing\n"
        "def work():\n"
        "    ring = []\n"
        "    ring.append(ring)\n"
        "gc.disable()\n"
        "sparing = Sparing()\n"
        "work()\n"
        "found = [sparing.collect() > 0]\n"
        "aside = gc.get_freeze_count()\n"
        "work()\n"
        "found.append(sparing.collect() > 0)\n"
        "print(found, aside > 5000, gc.get_freeze_count() == aside, sparing.collect())\n"
    )
    assert printed(program) == "[True, True] True True 0\n"


def test_sparks_daemon_searches_by_a_name_that_can_be_replaced() -> None:
    """Nobody would notice: its workers would only be slower."""
    assert vars(spark_daemon)["gc"] is gc
    assert "gc.collect()" in inspect.getsource(spark_daemon.manager)


@pytest.mark.spark
def test_a_worker_of_spark_begins_with_what_was_put_aside(spark: SparkSession) -> None:
    counts = spark.sparkContext.parallelize([0], 1).map(lambda _: gc.get_freeze_count())
    assert counts.collect()[0] > 5000
