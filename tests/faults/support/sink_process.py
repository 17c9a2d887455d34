"""Jobs that write to topics, started again until all have ended: however often they had to die."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
from tests.faults.support.restarting_servers import immortal
from tests.faults.support.spark_sink import FILES, KILLS_DRIVER, LOCAL, ROWS
from tests.pipeline.support.sinks import messages_in

PROGRAM = Path(__file__).parent / "spark_sink.py"
#: How often a driver may be started again: Spark gives its workers ten seconds to start.
LIVES = 5
#: So long one may take on a machine that is busy with other things.
LIFE_S = 600


def outlive(root: Path, port: int, cases: Sequence[str], master: str | None = None) -> None:
    """Run jobs until all have ended, through all their deaths, and look at what the topics hold.

    Without a ``master`` Spark runs in the jobs' own process.
    """
    rows = root / "rows"
    rows.mkdir()
    for number in range(FILES):
        first = number * ROWS // FILES
        table = pa.table({"v": pa.array(range(first, first + ROWS // FILES), pa.int64())})
        pyarrow.parquet.write_table(table, rows / f"{number}.parquet")
    for case in cases:
        directory = root / "cases" / case
        directory.mkdir(parents=True)
        if case.rpartition("-")[2] in KILLS_DRIVER:
            (directory / "waits").touch()
    with immortal(root, port) as servers:
        command = [sys.executable, str(PROGRAM), master or LOCAL, servers.name_server, str(root)]
        for _ in range(LIVES):
            ended = subprocess.run(
                [*command, *cases], capture_output=True, text=True, timeout=LIFE_S, check=False
            )
            if ended.returncode == 0:
                break
        assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
        for case in cases:
            assert (root / "cases" / case / "fired").exists(), f"{case} met no fault"
            found = sorted(int(m.body) for m in messages_in(servers.name_server, case))
            assert found == list(range(ROWS)), case
