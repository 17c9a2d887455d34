"""A process that serves: its loop, its log, its signals, and what it prints when it is ready.

Standard output has what `banner` says, and nothing after it; the log goes to standard error.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import FrameType
from typing import Final

from rocketpipe.cli.serving.collecting import short_collections
from rocketpipe.cli.serving.log_lines import JsonLines
from rocketpipe.clock import SystemClock, within
from rocketpipe.descriptors import raise_limit

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

#: The exit code of a process that could not go on: what sysexits calls a software error.
FAILED: Final = 70
_LOOK_EVERY_MS: Final = 100

#: Starts servers that live as long as the stack, and gives the lines to print when they serve.
Start = Callable[[AsyncExitStack], Awaitable[list[str]]]

log = logging.getLogger(__name__)


def set_up_log(level: str | None, form: str = "text") -> None:
    """Send the log to standard error, from ``level`` on.

    Without one that is ``info``, but ``warning`` on a terminal, where the banner has what matters.
    """
    usual = "warning" if sys.stderr.isatty() else "info"
    logging.basicConfig(
        stream=sys.stderr,
        level=(level or usual).upper(),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    if form == "json":
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonLines())


def log_as(broker: str) -> None:
    """Have lines of JSON say which broker they are of."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, JsonLines):
            handler.formatter.broker = broker


def serve_until_signal(start: Start, failed: Callable[[], object | None] | None = None) -> int:
    """Run servers until SIGINT or SIGTERM; give the exit code.

    The first signal stops them in order, even while they still start. A second one ends the
    process at once. ``failed`` is asked from time to time, and once it gives a reason they are
    stopped as well, and the exit code is `FAILED`.
    """
    raise_limit()
    serving = _Serving(start, failed)
    with asyncio.Runner(loop_factory=_quickest_loop()) as runner:
        runner.run(serving.run())
    _tell("stopped")
    return serving.code


def _tell(text: str) -> None:
    """Say how far a stop is: in the log, which begins at warning on a terminal, or in its place."""
    log.info("%s", text)
    if sys.stderr.isatty() and not log.isEnabledFor(logging.INFO):
        sys.stderr.write(f"{text}\n")


def _quickest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The loop of uvloop, where that is installed; None stands for asyncio's own."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


class _Serving:
    def __init__(self, start: Start, failed: Callable[[], object | None] | None) -> None:
        self._start = start
        self._failed = failed
        self.code = 0
        self._stop = asyncio.Event()
        self._starting: asyncio.Task[None] | None = None

    async def run(self) -> None:
        self._starting = asyncio.current_task()
        loop = asyncio.get_running_loop()

        # Not the loop's own way: Python calls this one even while an opening store keeps the loop.
        def on_signal(number: int, _: FrameType | None) -> None:
            for each in _SIGNALS:
                signal.signal(each, signal.SIG_DFL)
            loop.call_soon_threadsafe(self._stopped_by, number)

        for each in _SIGNALS:
            signal.signal(each, on_signal)
        try:
            async with AsyncExitStack() as stack:
                started = stack.enter_context(short_collections())
                lines = await self._start(stack)
                self._starting = None
                started()
                # One write, so that whoever waits for the last line has all of them.
                sys.stdout.write("".join(f"{line}\n" for line in lines))
                sys.stdout.flush()
                await self._stopped()
        except asyncio.CancelledError:
            if not self._stop.is_set():
                raise

    async def _stopped(self) -> None:
        """Wait for a signal, or for a failure."""
        if self._failed is None:
            await self._stop.wait()
            return
        clock = SystemClock()
        while not await within(clock, _LOOK_EVERY_MS, self._stop.wait()):
            if (reason := self._failed()) is not None:
                log.critical("stopping, exit code %d: %s", FAILED, reason)
                self.code = FAILED
                return

    def _stopped_by(self, number: int) -> None:
        _tell(f"stopping signal={signal.Signals(number).name}; a second one ends it at once")
        self._stop.set()
        if self._starting is not None:
            self._starting.cancel()
