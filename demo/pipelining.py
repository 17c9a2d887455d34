"""The demo's pipeline, as people run one: a folder, and ``rocketpipe pipeline run --follow`` in it.

The folder is copied to the run's directory, so that its tables are there, and the commands of
``rocketpipe pipeline`` can be typed there afterwards. The command, and Spark with it, is killed in
the middle of a micro-batch, and started again.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketpipe.errors import RocketPipeError
from rocketpipe.pipeline.excuses import excuse
from rocketpipe.projects import folder as folders
from rocketpipe.projects import records
from rocketpipe.projects.table_files import count_rows, files_of

if TYPE_CHECKING:
    import pyarrow as pa

SOURCE: Final = Path(__file__).resolve().parent / "pipeline"
FOLDER: Final = "pipeline"
LOG_NAME: Final = "pipeline.log"
#: What Spark and the definitions say, which the command keeps in its folder.
SPARK_LOGS: Final = tuple(f"{FOLDER}/.rocketpipe/{name}.log" for name in ("definitions", "spark"))
#: The table of flights, which is also what its flow is called.
FLIGHTS: Final = "flights"
DELAYS: Final = "delays"
LETTERS: Final = "dead_letters"
GROUP: Final = "delay-tables"
#: Spark starts in ten seconds, and in a minute on a machine that is busy with other things.
START_TIMEOUT_S: Final = 240
STOP_TIMEOUT_S: Final = 40
MOST_STARTS: Final = 5
LOOK_AGAIN_S: Final = 0.01
COMMAND: Final = (
    *(sys.executable, "-m", "rocketpipe.cli.main", "pipeline", "run"),
    *("--follow", "--every", "1s", "--output", "json"),
)


class PipelineFailed(RocketPipeError):
    """The pipeline ended again and again, or too much time passed; its log says why."""


class FlightsPipeline:
    """The process that runs the pipeline; if it dies it is started again, and that is told."""

    def __init__(
        self,
        place: Path,
        name_server: str,
        told: Callable[[str], None],
        command: Sequence[str] = COMMAND,
    ) -> None:
        """Copy the folder to below ``place``; ``told`` hears what happens to the pipeline."""
        self.root = place / FOLDER
        shutil.copytree(SOURCE, self.root)
        self._folder = folders.read(self.root / folders.SPEC_NAMES[0])
        self._log = place / LOG_NAME
        self._name_server = name_server
        self._command = command
        self._told = told
        #: What is to be told of it, in order: kills, failures and their reasons.
        self.history: list[str] = []
        self.kills = 0
        #: Passes over what the topics have that were completed, in all, and since the last start.
        self.passes = 0
        self._fresh_passes = 0
        self._process: asyncio.subprocess.Process | None = None
        self._changed = asyncio.Condition()
        #: Nothing is started while a kill is under way.
        self._starting = asyncio.Lock()
        self._stopping = False
        self._starts = 0

    async def run(self) -> None:
        """Keep it running until ``stop``.

        Raises:
            PipelineFailed: If it ends too often.
        """
        while True:
            code = await self._run_once()
            if self._stopping:
                return
            if self._starts >= MOST_STARTS:
                raise PipelineFailed(f"the pipeline ended {self._starts} times: see {self._log}")
            if code != -signal.SIGKILL:
                self._note(f"the pipeline ended with code {code}; started again")

    async def passed(self) -> None:
        """Wait for a completed pass; after a kill, for the first one since.

        Raises:
            PipelineFailed: If it takes too long.
        """
        is_done = lambda: self._starts > self.kills and self._fresh_passes > 0  # noqa: E731
        try:
            async with asyncio.timeout(START_TIMEOUT_S), self._changed:
                await self._changed.wait_for(is_done)
        except TimeoutError:
            raise PipelineFailed(
                f"no pass was completed within {START_TIMEOUT_S} s: see {self._log}"
            ) from None

    async def kill_in_batch(self, within_s: float = START_TIMEOUT_S) -> bool:
        """Kill command and Spark at once, in the middle of a micro-batch; False if none begins.

        That is when the checkpoint has a batch as begun and not as done, and still so afterwards.
        """
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if self.open_batch() is None or self._process is None:
                await asyncio.sleep(LOOK_AGAIN_S)
                continue
            async with self._starting:
                await self._kill()
                self.kills += 1
                self._fresh_passes = 0
                batch = self.open_batch()
            within = f"within batch {batch}" if batch is not None else "right behind a batch"
            self._note(f"the pipeline and its Spark were killed with SIGKILL, {within}")
            if batch is not None:
                return True
            await self.passed()
        return False

    async def stop(self) -> None:
        """Have it end as by Ctrl-C."""
        self._stopping = True
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGINT)
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            await self._kill()

    # What it has done so far, by its files

    def open_batch(self) -> int | None:
        """The batch of flights that is begun and not done, if there is one."""
        begun, done = self._last("offsets"), self._last("commits")
        return begun if begun > done else None

    @property
    def batches(self) -> int:
        """How many batches of flights were written."""
        return self._last("commits") + 1

    def count(self) -> int:
        """How many flights the table has."""
        return count_rows(self._folder.table_files(FLIGHTS)) or 0

    def has_passed(self, flights: int, letters: int) -> bool:
        """Whether the last pass is complete, and had read so many flights and dead letters."""
        run = records.last(self._folder)
        if run is None or run.state != "completed" or FLIGHTS not in run.flows:
            return False
        queues = run.flows[FLIGHTS].ends.get(FLIGHTS, {}).values()
        read = sum(end for ends in queues for end in ends.values())
        dead = count_rows(self._folder.table_files(LETTERS)) or 0
        return read >= flights and dead >= letters

    def table(self, name: str) -> pa.Table:
        """One of its tables, as whoever reads Parquet gets it."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        place = self._folder.table_files(name)
        assert place is not None
        return pa.concat_tables(pq.read_table(file) for file in files_of(place))

    # Inside

    def _last(self, which: str) -> int:
        """The number of the last batch in a part of the checkpoint; -1 if there is none."""
        flow = self._folder.checkpoints(FLIGHTS, FLIGHTS, is_sink=False)
        assert flow is not None
        return max((int(each.name) for each in flow.glob(f"0/{which}/[0-9]*")), default=-1)

    async def _run_once(self) -> int:
        async with self._starting:
            self._starts += 1
            self._fresh_passes = 0
            process = self._process = await self._spawn()
        assert process.stdout is not None
        try:
            async for line in process.stdout:
                await self._hear(json.loads(line))
            return await process.wait()
        finally:
            if process.returncode is None:
                await self._kill()
            self._process = None

    async def _spawn(self) -> asyncio.subprocess.Process:
        with self._log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *self._command,
                cwd=self.root,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                # It does for a small heap, and leaves the cores to the others.
                env={"JDK_JAVA_OPTIONS": "-XX:+UseSerialGC"}
                | os.environ
                | {"ROCKETPIPE_NAMESRV": self._name_server},
                start_new_session=True,  # Ctrl-C is for us: we end it in order
            )

    async def _hear(self, run: dict[str, Any]) -> None:
        if run["state"] == "completed":
            self.passes += 1
            self._fresh_passes += 1
        else:
            why = excuse(str(run["error"])) or run["error"]
            self._note(f"a pass of the pipeline {run['state']}, and the next goes on: {why}")
        async with self._changed:
            self._changed.notify_all()

    async def _kill(self) -> None:
        """Kill the command; the system kills its Spark with it, which is waited for."""
        process = self._process
        if process is not None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            await process.wait()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while await self._has_processes() and time.monotonic() < deadline:  # noqa: ASYNC110 - others'
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _has_processes(self) -> bool:
        listing = await asyncio.create_subprocess_exec(
            *("ps", "-ww", "-eo", "args"), stdout=asyncio.subprocess.PIPE
        )
        output, _ = await listing.communicate()
        return str(self._folder.own).encode() in output

    def _note(self, text: str) -> None:
        self.history.append(text)
        self._told(text)
