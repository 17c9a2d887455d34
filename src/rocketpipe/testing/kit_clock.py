"""Time that passes as ever, and leaps ahead when a test says so.

A clock that stood still would leave clients waiting that back off for a moment, and receivers that
wait for at most a second. So this one goes with the machine's; ``advance`` adds to it. It does not
leap over what falls due on the way: it hops from one deadline to the next, at most so many times,
and lets every loop that has sleepers work between two hops.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from datetime import timedelta
from typing import Final

from rocketpipe.config.duration import read_duration

#: What lies between two hops happens at the later one: late by this part of the way, never early.
HOPS: Final = 200
#: Loops are given so many turns at a time, and again until so often nothing stirred: what crosses
#: two sockets, and is answered in turn, shows by then.
_TURNS: Final = 4
_QUIET_ROUNDS: Final = 4
#: At most so often in one hop, and before and after a leap: somebody may never be quiet.
_ROUNDS: Final = 100
_ROUNDS_AT_ENDS: Final = 2000
#: A loop that gives no turn for so long is blocked by the test itself, and is not waited for.
_TURN_TIMEOUT_S: Final = 2.0

Duration = str | int | timedelta


def in_ms(duration: Duration) -> int:
    """Milliseconds of ``"16m"``, ``"1.5h"``, ``"250ms"``, a number of them, or a timedelta.

    Raises:
        ValueError: If it is none of these, or runs backwards.
    """
    if isinstance(duration, timedelta):
        millis = round(duration / timedelta(milliseconds=1))
    elif isinstance(duration, str):
        millis = read_duration(duration)
    else:
        millis = duration
    if millis < 0:
        raise ValueError(f"time does not run backwards: {duration!r}")
    return millis


class Done:
    """What was done already; may be awaited all the same."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


def off_loop(work: Callable[[], None]) -> Awaitable[None]:
    """Do what blocks: at once where no loop runs, else in a thread, once that is awaited."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        work()
        return Done()
    return asyncio.to_thread(work)


class _Sleeper:
    """Somebody who waits on one loop for one moment."""

    __slots__ = ("loop", "until_ms", "woken")

    def __init__(self, until_ms: int) -> None:
        self.until_ms = until_ms
        self.loop = asyncio.get_running_loop()
        self.woken: asyncio.Future[None] = self.loop.create_future()

    def wake(self) -> None:
        """Have it look at the clock again; on its own loop."""
        if not self.woken.done():
            self.woken.set_result(None)

    def nudge(self) -> None:
        """Have it look at the clock again; on any thread."""
        with suppress(RuntimeError):  # its loop is closed
            self.loop.call_soon_threadsafe(self.wake)


class KitClock:
    """The machine's time and what ``advance`` added to it, for servers and clients on any loop."""

    def __init__(self) -> None:
        self._ahead_ms = 0
        self._gate = threading.Lock()
        self._advancing = threading.Lock()
        self._sleepers: set[_Sleeper] = set()
        self._stirs = 0

    def stir(self) -> None:
        """Note that something happens, on any thread: a leap waits for that to end."""
        self._stirs += 1  # two at a time may count as one, which is as good

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000 + self._ahead_ms

    async def sleep(self, duration_ms: int) -> None:
        if duration_ms <= 0:
            await asyncio.sleep(0)
            return
        until_ms = self.monotonic_ms() + duration_ms
        while True:
            sleeper = _Sleeper(until_ms)
            with self._gate:
                left_ms = until_ms - self.monotonic_ms()
                if left_ms <= 0:
                    return
                self._sleepers.add(sleeper)
            self.stir()
            timer = sleeper.loop.call_later(left_ms / 1000, sleeper.wake)
            try:
                await sleeper.woken
            finally:
                timer.cancel()
                with self._gate:
                    self._sleepers.discard(sleeper)

    def advance(self, duration: Duration) -> Awaitable[None]:
        """Let time leap: ``clock.advance("16m")``; in a coroutine ``await clock.advance("16m")``.

        All that falls due on the way happens, in that order. What it sets off at other clients may
        still be on its way when this returns: wait for what you expect, not for a time.

        Raises:
            ValueError: If it is no duration such as ``"16m"``, a number of milliseconds, or a
                timedelta.
        """
        millis = in_ms(duration)
        return off_loop(lambda: self._advance(millis))

    def _advance(self, left_ms: int) -> None:
        at_least_ms = max(1, left_ms // HOPS)
        blocked: set[asyncio.AbstractEventLoop] = set()
        with self._advancing:
            self._settle(_ROUNDS_AT_ENDS, blocked)  # what was asked before is done before
            while left_ms > 0:
                hop_ms, due = self._hop(at_least_ms, left_ms)
                left_ms -= hop_ms
                for sleeper in due:
                    sleeper.nudge()
                self._settle(_ROUNDS, blocked)
            with self._gate:
                rest = list(self._sleepers)
            for sleeper in rest:  # their timers go by the time before the leap
                sleeper.nudge()
            self._settle(_ROUNDS_AT_ENDS, blocked)

    def _hop(self, at_least_ms: int, at_most_ms: int) -> tuple[int, list[_Sleeper]]:
        """Go to the next deadline, or farther; gives how far that was, and who is to wake."""
        with self._gate:
            now_ms = self.monotonic_ms()
            next_ms = min((each.until_ms for each in self._sleepers), default=now_ms + at_most_ms)
            hop_ms = min(at_most_ms, max(at_least_ms, next_ms - now_ms))
            self._ahead_ms += hop_ms
            now_ms += hop_ms
            due = [each for each in self._sleepers if each.until_ms <= now_ms]
        due.sort(key=lambda each: each.until_ms)
        return hop_ms, due

    def _settle(self, rounds: int, blocked: set[asyncio.AbstractEventLoop]) -> None:
        """Let every loop that has sleepers do what it has to do now."""
        quiet = 0
        for _ in range(rounds):
            if quiet == _QUIET_ROUNDS:
                return
            before = self._stirs
            with self._gate:
                loops = {each.loop for each in self._sleepers} - blocked
            for loop, turned in [(loop, _turn(loop)) for loop in loops]:
                if not turned.wait(_TURN_TIMEOUT_S):
                    blocked.add(loop)
            quiet = quiet + 1 if self._stirs == before else 0


def _turn(loop: asyncio.AbstractEventLoop) -> threading.Event:
    """Give a loop a few turns; the event is set when it has had them."""
    turned = threading.Event()

    def turn(left: int) -> None:
        if left:
            loop.call_soon(turn, left - 1)
        else:
            turned.set()

    try:
        loop.call_soon_threadsafe(turn, _TURNS)
    except RuntimeError:  # it is closed
        turned.set()
    return turned
