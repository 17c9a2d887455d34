"""Looks after the Spark process: starts it, asks it, kills it, and starts it again."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from demo.spark_job import Settings
from rocketpipe.errors import RocketPipeError

LOG_NAME: Final = "spark_job.log"
ROOT: Final = Path(__file__).resolve().parent.parent
#: Spark starts in ten seconds, and in a minute on a machine that is busy with other things.
START_TIMEOUT_S: Final = 180
ANSWER_TIMEOUT_S: Final = 180
STOP_TIMEOUT_S: Final = 40
MOST_STARTS: Final = 4
LINE_BYTES: Final = 1 << 24


class SparkFailed(RocketPipeError):
    """The Spark process failed, again and again or for no known reason; its log says why."""


class SparkChild:
    """A process that runs ``demo.spark_job``; if it dies it is started again, and that is told."""

    def __init__(
        self,
        settings: Settings,
        told: Callable[[str], None],
        command: Sequence[str] = (sys.executable, "-m", "demo.spark_job"),
    ) -> None:
        """Prepare; ``told`` hears what happens to it, and ``command`` is given the settings."""
        self.settings = settings
        self._command = command
        #: What is to be told of it, in order: starts, kills, restarts and their reasons.
        self.history: list[str] = []
        self.batches = 0
        self.kills = 0
        self._told = told
        self._numbers = itertools.count()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._is_streaming = False
        self._changed = asyncio.Condition()
        self._in_batch = self._is_half_done = False
        self._stopping = False
        self._starts = 0

    async def run(self) -> None:
        """Keep it running until ``stop``.

        Raises:
            SparkFailed: If it ends too often.
        """
        while True:
            code = await self._run_once()
            if self._stopping:
                return
            if self._starts >= MOST_STARTS:
                log = Path(self.settings.place, LOG_NAME)
                raise SparkFailed(f"Spark ended {self._starts} times: see {log}")
            if code != -signal.SIGKILL:
                self._note(f"the Spark process ended with code {code}; started again")

    async def streaming(self) -> None:
        """Wait until the query runs; after a kill, until it runs again.

        Raises:
            SparkFailed: If it takes too long; so say all that wait.
        """
        is_running = lambda: self._starts > self.kills and self._is_streaming  # noqa: E731
        await self._until(is_running, "the query runs")

    async def batches_done(self, count: int) -> None:
        """Wait until so many batches are done, counted from the first start."""
        await self._until(lambda: self.batches >= count, f"{count} batches are done")

    async def kill_in_batch(self, within_s: float = START_TIMEOUT_S) -> bool:
        """Kill driver and JVM at once, in the middle of a micro-batch; False if none gets there.

        That is when one of the two tables has the batch, and the other has not.
        """
        try:
            async with asyncio.timeout(within_s), self._changed:
                await self._changed.wait_for(lambda: self._is_half_done)
        except TimeoutError:
            return False
        self.kills += 1
        self._note("the Spark query was killed with SIGKILL, within a batch")
        self._kill()
        return True

    @property
    def is_between_batches(self) -> bool:
        """Whether the query runs, and no batch is under way."""
        return self._is_streaming and not self._in_batch

    async def ask(self, question: str) -> Any:
        """Have it answer a question; if it dies meanwhile, the next one is asked again.

        Raises:
            SparkFailed: If it cannot answer.
        """
        while True:
            starts = self._starts
            try:
                return await self._ask(question)
            except SparkFailed:
                if self._starts == starts and self._is_streaming:
                    raise

    async def _ask(self, question: str) -> Any:
        await self.streaming()
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, "ask": question}).encode() + b"\n")
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await answer
        except TimeoutError:
            raise SparkFailed(f"Spark did not answer {question!r} in time") from None
        finally:
            self._answers.pop(number, None)

    async def stop(self) -> None:
        """Have the query stop, and the process end."""
        self._stopping = True
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            self._kill()
            await process.wait()

    # Inside

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(START_TIMEOUT_S), self._changed:
                await self._changed.wait_for(condition)
        except TimeoutError:
            log = Path(self.settings.place, LOG_NAME)
            raise SparkFailed(f"waited {START_TIMEOUT_S} s until {what}: see {log}") from None

    async def _run_once(self) -> int:
        self._starts += 1
        process = self._process = await self._spawn()
        assert process.stdout is not None
        try:
            async for line in process.stdout:
                await self._hear(json.loads(line))
            return await process.wait()
        finally:
            if process.returncode is None:
                self._kill()
                await process.wait()
            self._is_streaming = self._in_batch = self._is_half_done = False
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(SparkFailed("Spark ended before it answered"))

    async def _spawn(self) -> asyncio.subprocess.Process:
        with Path(self.settings.place, LOG_NAME).open("ab") as log:  # noqa: ASYNC230 - at once
            return await asyncio.create_subprocess_exec(
                *self._command,
                self.settings.text(),
                cwd=ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=LINE_BYTES,
                # It does for a small heap, and leaves the cores to the others.
                env={"JDK_JAVA_OPTIONS": "-XX:+UseSerialGC"} | os.environ,
                start_new_session=True,  # a group of its own, which can be killed as one
            )

    async def _hear(self, line: dict[str, Any]) -> None:
        if "id" in line:
            answer = self._answers.get(line["id"])
            if answer is not None and not answer.done():
                if "failed" in line:
                    answer.set_exception(SparkFailed(line["failed"]))
                else:
                    answer.set_result(line["answer"])
            return
        match line["event"]:
            case "streaming":
                self._is_streaming = True
            case "batch begins":
                self._in_batch = True
            case "half done":
                self._is_half_done = True
            case "batch done":
                self._in_batch = self._is_half_done = False
                self.batches += 1
            case event:
                self._in_batch = self._is_half_done = False
                self._note(f"{event}: {line['why']}")
        async with self._changed:
            self._changed.notify_all()

    def _note(self, text: str) -> None:
        self.history.append(text)
        self._told(text)

    def _kill(self) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
