"""What Spark's workers find in memory."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from rocketpipe.pipeline.daemon import PRELOADED


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="nobody else tells threads")
def test_nothing_is_preloaded_that_starts_a_thread() -> None:
    """Spark forks the daemon: a thread that is there is in the middle of something."""
    program = (
        "import os, sys\n"
        "from rocketpipe.pipeline import daemon\n"
        "for worker in daemon.PRELOADED:\n"
        "    daemon.preload(worker)\n"
        "print(len(os.listdir('/proc/self/task')))\n"
        "names = ('numpy', 'pyarrow', 'rocketpipe.client.session')\n"
        "print([name for name in names if name in sys.modules])\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines() == ["1", "['rocketpipe.client.session']"]


def test_all_of_it_is_there_with_this_spark() -> None:
    named = {*PRELOADED, *(name for names in PRELOADED.values() for name in names)}
    assert [name for name in sorted(named) if importlib.util.find_spec(name) is None] == []
