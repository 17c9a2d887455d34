"""Answers that wait until replicas have what was sent: one list, in the order of the log."""

from __future__ import annotations

import asyncio
import logging
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from rocketpipe.broker.replication.standing import Refusal
from rocketpipe.clock import Clock
from rocketpipe.model.offsets import LogOffset
from rocketpipe.protocol.codes import ResponseCode

log = logging.getLogger(__name__)

Done = Callable[[int, str], None]

#: Deadlines are looked at no more often than this.
_LEAST_MS: Final = 10


@dataclass(order=True, slots=True)
class _Waiting:
    end: LogOffset
    deadline_ms: int = field(compare=False)
    done: Done = field(compare=False)


class WaitingSends:
    """Calls each who waits once: when its end is reached, when it took too long, or at the end."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: list[_Waiting] = []
        self._timer: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, end: LogOffset, timeout_ms: int, done: Done) -> None:
        """Call ``done`` when everything before ``end`` is released, or with 12 by then."""
        one = _Waiting(end, self._clock.monotonic_ms() + timeout_ms, done)
        if self._waiting and self._waiting[-1].end > end:
            insort(self._waiting, one)
        else:
            self._waiting.append(one)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().create_task(self._expire())

    def release(self, upto: LogOffset, code: int) -> None:
        """Call those whose end is reached."""
        waiting = self._waiting
        count = 0
        for one in waiting:
            if one.end > upto:
                break
            count += 1
        if not count:
            return
        released = waiting[:count]
        del waiting[:count]
        for one in released:
            _call(one, code, "")

    def fail(self, refusal: Refusal) -> None:
        """Call all of them, with why nothing comes of it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        failed, self._waiting = self._waiting, []
        for one in failed:
            _call(one, *refusal)

    async def _expire(self) -> None:
        while self._waiting:
            next_ms = min(one.deadline_ms for one in self._waiting)
            await self._clock.sleep(max(_LEAST_MS, next_ms - self._clock.monotonic_ms()))
            now_ms = self._clock.monotonic_ms()
            late = [one for one in self._waiting if one.deadline_ms <= now_ms]
            if late:
                self._waiting = [one for one in self._waiting if one.deadline_ms > now_ms]
            for one in late:
                _call(one, ResponseCode.FLUSH_SLAVE_TIMEOUT, "")
        self._timer = None


def _call(one: _Waiting, code: int, remark: str) -> None:
    try:
        one.done(code, remark)
    except Exception:  # the others are answered all the same
        log.exception("a send was not answered end=%s", one.end)
