"""Somebody sets the clock of a machine on which a table follows its topic."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.waiting import until_there

from rocketpipe.testing import Cluster

pytestmark = pytest.mark.spark

HOUR_S = 3600


class Clock:
    """What the programs of an environment take for the time of day."""

    def __init__(self, place: Path) -> None:
        compiler = shutil.which("cc")
        if sys.platform != "linux":
            pytest.skip("LD_PRELOAD is Linux's")
        if compiler is None:
            pytest.skip("no C compiler: install one (cc) to set a clock for one program")
        built, source = place / "set_clock.so", Path(__file__).with_name("set_clock.c")
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", str(source), "-o", str(built)], check=True
        )
        self._file = place / "ahead"
        self.set(0)
        self.environment = {
            **os.environ,
            "LD_PRELOAD": str(built),
            "SET_CLOCK_FILE": str(self._file),
        }

    def set(self, ahead_s: int) -> None:
        self._file.touch()
        with self._file.open("r+b") as file:
            file.write(struct.pack("=q", ahead_s))


@pytest.mark.timeout(600)
def test_a_clock_that_is_set_neither_stops_a_table_nor_takes_files_from_its_readers(
    servers: Cluster, send: Callable[..., None], tmp_path: Path
) -> None:
    clock, to, said = Clock(tmp_path), tmp_path / "table", tmp_path / "said"
    words = [sys.executable, "-m", "rocketpipe.cli.main", "table", "follow", "set-clocks"]
    words += ["--to", str(to), "--namesrv", servers.name_server, "--every", "1s"]
    words += ["--compact-every", "4", "--keep", "1h"]
    sent = 0

    def more() -> None:
        nonlocal sent
        send("set-clocks", [b"%d" % sent])
        sent += 1

    def has_all() -> None:
        """Wait until the table has the last message, in a batch of its own."""
        until_there(lambda: f"batch {sent - 1}: 1 rows" in said.read_text() or run.poll())
        assert run.poll() is None, said.read_text()

    def batch() -> None:
        more()
        has_all()

    more()
    with said.open("w") as out:
        run = subprocess.Popen(words, env=clock.environment, stdout=out, stderr=out)
    try:
        query = to / "_rocketpipe" / "checkpoint" / "metadata"
        until_there(lambda: query.exists() or run.poll())  # Spark starts, on a busy machine
        has_all()
        batch()
        batch()
        began = DeltaTable(to).to_pyarrow_dataset()
        batch()  # its upkeep lets go of what that reader reads
        clock.set(-HOUR_S)
        batch()
        clock.set(31 * 24 * HOUR_S)
        for _ in range(4):  # whose upkeep removes what is older than an hour
            batch()
        assert began.to_table().num_rows == 3
        clock.set(0)
        batch()
    finally:
        run.send_signal(signal.SIGTERM)
        run.wait(60)
    assert said.read_text().count("started again: the clock was set back") == 2
    assert DeltaTable(to).to_pyarrow_table().num_rows == sent
