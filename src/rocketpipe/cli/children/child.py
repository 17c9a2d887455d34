"""One process that is kept running: started, watched, started again when it dies, and ended.

stopped ─ start ─▶ starting ─ ready ─▶ running ⇄ paused
   ▲                   │                  │
   │                   └──── died ────────┤
   │                           │          └─ kill ─▶ killed ─ start ─▶ starting
   └── stop ──                 └─ after a rest ─▶ starting
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

from rocketpipe import attached
from rocketpipe.cli.children.events import Event, Tell
from rocketpipe.cli.children.output import Output
from rocketpipe.clock import Clock, within
from rocketpipe.errors import RocketPipeError

#: A process that died is started again after so long.
REST_MS: Final = 2_000
#: So long one that was asked to end has for it.
STOP_MS: Final = 20_000
#: One that served for so long did not die at once: what came before counts no longer.
STEADY_MS: Final = 60_000
_LOOK_EVERY_MS: Final = 100


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
        name: str,
        command: Callable[[], list[str]],
        *,
        address: Callable[[], str],
        output: Output,
        pipe: int,
        clock: Clock,
        tell: Tell,
        changed: Callable[[], None],
        answers: Callable[[], bool] | None = None,
        rest_ms: Callable[[int], int] | None = None,
        stop_ms: int | None = None,
    ) -> None:
        """Take what it is, how it is started, and who is told of what happens to it.

        ``pipe`` is the reading end of one whose writing end lives as long as this process.
        ``changed`` is called when there is another process id. It serves once a line of JSON on
        its standard output says ``"event": "ready"``, or, where ``answers`` is given, once that,
        called in a thread, says so. ``rest_ms`` is told how often in a row it has died.
        """
        self.name = name
        self.output = output
        self._command = command
        self._address = address
        self._pipe = pipe
        self._clock = clock
        self._tell = tell
        self._changed = changed
        self._answers = answers
        self._rest_ms = rest_ms or (lambda _: REST_MS)
        self._stop_ms = stop_ms
        self.state = State.STOPPED
        self.ready = asyncio.Event()
        #: What it said when it was ready, if it says such things.
        self.told: dict[str, Any] = {}
        self.starts = 0
        #: How often it has died since it last served for a while.
        self.deaths = 0
        self.began_ms: int | None = None
        self._ready_ms: int | None = None
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
                await within(self._clock, self._rest_ms(self.deaths), self._at_once.wait())

    def start(self) -> None:
        """Have it run.

        Raises:
            NotPossible: It does already.
        """
        if self._process is not None or (self._wanted.is_set() and self.state is State.STARTING):
            raise NotPossible(f"{self.name} runs already, as process {self.pid}")
        self.state = State.STARTING
        self._wanted.set()
        self._at_once.set()

    async def kill(self) -> None:
        """Kill it without warning; it stays dead until it is started.

        Raises:
            NotPossible: It does not run.
        """
        if self._process is None and not self._wanted.is_set():
            raise NotPossible(f"{self.name} does not run: it is {self.state}")
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
            raise NotPossible(f"{self.name} does not run: it is {self.state}")
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
            raise NotPossible(f"{self.name} is not paused: it is {self.state}")
        self._resumed()

    async def stop(self) -> None:
        """End it in order; what does not end in time is killed."""
        self._wanted.clear()
        self._at_once.set()
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)
        patience_ms = self._stop_ms or STOP_MS
        if not await within(self._clock, patience_ms, self._gone.wait()):
            text = f"{self.name} did not end within {patience_ms // 1000} s, and was killed"
            self._tell(Event(self.name, "killed", text))
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
        command = self._command()
        with self.output.opened() as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", attached.__file__),
                *(str(os.getpid()), str(self._pipe), *command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log if self._answers is not None else asyncio.subprocess.PIPE,
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
        following = asyncio.ensure_future(self.output.follow(self._process.stderr))
        try:
            code = await self._process.wait()
            await following
        finally:
            watching.cancel()
            following.cancel()
        self._forget_resuming()
        self._process = None
        self.began_ms = None
        self._changed()
        self._died(_reason(code))

    def _died(self, reason: str) -> None:
        was_ready = self.ready.is_set()
        self.ready.clear()
        now_ms = self._clock.monotonic_ms()
        if self._ready_ms is not None and now_ms - self._ready_ms >= STEADY_MS:
            self.deaths = 0
        self._ready_ms = None
        if self._wanted.is_set():
            self.state = State.DIED
            self.deaths += 1
            text = f"{self.name} died ({reason})"
            if not was_ready:
                text += " while it started"
            if self.deaths > 1:
                text += f", {self.deaths} times in a row"
            text += f", starts again in {self._rest_ms(self.deaths) / 1000:g} s"
            if not was_ready:
                text += f"; {self.output.last_words()}"
            facts = {"reason": reason, "deaths": self.deaths, "served": was_ready}
            self._tell(Event(self.name, "died", text, facts))
        elif self.state is not State.KILLED:
            self.state = State.STOPPED
        self._gone.set()

    async def _watch_start(self, process: asyncio.subprocess.Process) -> None:
        if self._answers is not None:
            while not await asyncio.to_thread(self._answers):
                await self._clock.sleep(_LOOK_EVERY_MS)
            self._is_ready()
            return
        assert process.stdout is not None
        async for line in process.stdout:
            if (told := _ready_line(line)) is not None:
                self.told = told
                self._is_ready()

    def _is_ready(self) -> None:
        if self.state is State.STARTING:
            self.state = State.RUNNING
        self._ready_ms = self._clock.monotonic_ms()
        self.ready.set()
        if self.starts > 1:
            address = self._address()
            text = f"{self.name} serves again at {address}"
            self._tell(Event(self.name, "serves", text, {"address": address}))

    def _resumed(self) -> None:
        self._forget_resuming()
        self._signal(signal.SIGCONT)
        self.state = State.RUNNING if self.ready.is_set() else State.STARTING
        self._tell(Event(self.name, "resumed", f"{self.name} goes on"))

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


def _reason(code: int) -> str:
    """How a process ended, in words: the name of a signal, or its exit code."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _ready_line(line: bytes) -> dict[str, Any] | None:
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return told if isinstance(told, dict) and told.get("event") == "ready" else None
