"""One process of a cluster: started, watched, started again when it dies, and ended.

stopped ─ start ─▶ starting ─ ready ─▶ running ⇄ paused
   ▲                   │                  │
   │                   └──── died ────────┤
   │                           │          └─ kill ─▶ killed ─ start ─▶ starting
   └── down ──                 └─ after 2 s ─▶ starting
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import IO, Final

from rocketpipe.cli.cluster import attached
from rocketpipe.cli.cluster.events import Event, Tell
from rocketpipe.cli.cluster.layout import Kind, Place
from rocketpipe.clock import Clock, within
from rocketpipe.coordination import zookeeper_server
from rocketpipe.errors import RocketPipeError

#: A process that died is started again after so long.
REST_MS: Final = 2_000
#: So long one that was asked to end has for it.
STOP_MS: Final = 20_000
_LOOK_EVERY_MS: Final = 100
#: A log that is longer when its process starts is kept once, and begun anew.
_MOST_LOG_BYTES: Final = 64 << 20


class State(StrEnum):
    """What a process does."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    DIED = "died"
    KILLED = "killed"


class NotPossible(RocketPipeError):
    """A process cannot do this now; the message says why, and what can be done."""


class Child:
    """Keeps one process running, unless it is told otherwise."""

    def __init__(
        self,
        place: Place,
        command: Callable[[Place], list[str]],
        *,
        log: Path,
        pipe: int,
        clock: Clock,
        tell: Tell,
        changed: Callable[[], None],
    ) -> None:
        """Take what it is, how it is started, and who is told of what happens to it.

        ``pipe`` is the reading end of one whose writing end lives as long as this process.
        ``changed`` is called when there is another process id.
        """
        self.place = place
        self.log = log
        self._command = command
        self._pipe = pipe
        self._clock = clock
        self._tell = tell
        self._changed = changed
        self.state = State.STOPPED
        self.ready = asyncio.Event()
        self.starts = 0
        self.began_ms: int | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._gone = asyncio.Event()
        self._gone.set()
        self._wanted = asyncio.Event()
        self._at_once = asyncio.Event()
        self._resuming: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """The process id, while there is a process."""
        return self._process.pid if self._process is not None else None

    async def keep(self) -> None:
        """Start it when it is wanted, and again whenever it dies."""
        while True:
            await self._wanted.wait()
            self._at_once.clear()
            try:
                await self._run()
            except OSError as error:
                self._died(f"cannot be started: {error}")
            if self._wanted.is_set():
                await within(self._clock, REST_MS, self._at_once.wait())

    def start(self) -> None:
        """Have it run.

        Raises:
            NotPossible: It does already.
        """
        if self._process is not None or (self._wanted.is_set() and self.state is State.STARTING):
            raise NotPossible(f"{self.place.name} runs already, as process {self.pid}")
        self.state = State.STARTING
        self._wanted.set()
        self._at_once.set()

    async def kill(self) -> None:
        """Kill it without warning; it stays dead until it is started.

        Raises:
            NotPossible: It does not run.
        """
        if self._process is None and not self._wanted.is_set():
            raise NotPossible(f"{self.place.name} does not run: it is {self.state}")
        self._wanted.clear()
        self.state = State.KILLED
        self._signal(signal.SIGKILL)
        await self._gone.wait()
        self.state = State.KILLED

    def pause(self, for_ms: int | None = None) -> None:
        """Stop it in the middle of whatever it does, until it is resumed or the time is over.

        Raises:
            NotPossible: It does not run.
        """
        if self._process is None:
            raise NotPossible(f"{self.place.name} does not run: it is {self.state}")
        self._forget_resuming()
        self._signal(signal.SIGSTOP)
        self.state = State.PAUSED
        if for_ms is not None:
            loop = asyncio.get_running_loop()
            self._resuming = loop.call_later(for_ms / 1000, self._resumed)

    def resume(self) -> None:
        """Let it go on.

        Raises:
            NotPossible: It is not paused.
        """
        if self.state is not State.PAUSED:
            raise NotPossible(f"{self.place.name} is not paused: it is {self.state}")
        self._resumed()

    async def stop(self) -> None:
        """End it in order; what does not end in time is killed."""
        self._wanted.clear()
        self._at_once.set()
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)
        if not await within(self._clock, STOP_MS, self._gone.wait()):
            text = f"{self.place.name} did not end within {STOP_MS // 1000} s, and was killed"
            self._tell(Event(self.place.name, "killed", text))
            self._signal(signal.SIGKILL)
            await self._gone.wait()
        self.state = State.STOPPED

    def end_now(self) -> None:
        """Kill it, and do not start it again."""
        self._wanted.clear()
        self._signal(signal.SIGKILL)

    async def _run(self) -> None:
        self.ready.clear()
        self._gone.clear()
        self.state = State.STARTING
        command = self._command(self.place)
        with self._opened_log() as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", attached.__file__),
                *(str(os.getpid()), str(self._pipe), *command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log if self.place.kind is Kind.ZOOKEEPER else asyncio.subprocess.PIPE,
                stderr=log,
                pass_fds=(self._pipe,),
                start_new_session=True,  # Ctrl-C is for us alone: we end them in order
            )
        self.starts += 1
        self.began_ms = self._clock.monotonic_ms()
        self._changed()
        if not self._wanted.is_set():  # ended while it was made
            self._signal(signal.SIGKILL)
        watching = asyncio.ensure_future(self._watch_start(self._process))
        try:
            code = await self._process.wait()
        finally:
            watching.cancel()
        self._forget_resuming()
        self._process = None
        self.began_ms = None
        self._changed()
        self._died(_reason(code))

    def _died(self, reason: str) -> None:
        was_ready = self.ready.is_set()
        self.ready.clear()
        name = self.place.name
        if self._wanted.is_set():
            self.state = State.DIED
            when = "" if was_ready else " while it started"
            text = f"{name} died ({reason}){when}, starts again in {REST_MS // 1000} s"
            if not was_ready:
                text += f"; see {self.log}"
            self._tell(Event(name, "died", text, {"reason": reason}))
        elif self.state is not State.KILLED:
            self.state = State.STOPPED
        self._gone.set()

    async def _watch_start(self, process: asyncio.subprocess.Process) -> None:
        if self.place.kind is Kind.ZOOKEEPER:
            while await asyncio.to_thread(zookeeper_server.mode_of, self.place.port) is None:
                await self._clock.sleep(_LOOK_EVERY_MS)
            self._is_ready()
            return
        assert process.stdout is not None
        async for line in process.stdout:
            if _says_ready(line):
                self._is_ready()

    def _is_ready(self) -> None:
        if self.state is State.STARTING:
            self.state = State.RUNNING
        self.ready.set()
        if self.starts > 1:
            text = f"{self.place.name} serves again at {self.place.address}"
            self._tell(Event(self.place.name, "serves", text, {"address": self.place.address}))

    def _resumed(self) -> None:
        self._forget_resuming()
        self._signal(signal.SIGCONT)
        self.state = State.RUNNING if self.ready.is_set() else State.STARTING
        self._tell(Event(self.place.name, "resumed", f"{self.place.name} goes on"))

    def _forget_resuming(self) -> None:
        if self._resuming is not None:
            self._resuming.cancel()
            self._resuming = None

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            try:
                self._process.send_signal(number)
            except ProcessLookupError:
                pass

    def _opened_log(self) -> IO[bytes]:
        self.log.parent.mkdir(exist_ok=True)
        if self.log.exists() and self.log.stat().st_size > _MOST_LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        return self.log.open("ab")


def _reason(code: int) -> str:
    """How a process ended, in words: the name of a signal, or its exit code."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _says_ready(line: bytes) -> bool:
    try:
        told = json.loads(line)
    except ValueError:
        return False
    return isinstance(told, dict) and told.get("event") == "ready"
