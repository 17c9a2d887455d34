"""The sends of a producer that were not answered yet: so many at most, none beyond its time.

Who finds no room waits in line for it. One sleeper watches over all deadlines: a timer for each
send would cost as much as the send. It says besides from whom an answer is long in coming.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from rocketpipe.clock import Clock
from rocketpipe.errors import CallTimeout, ProducerFull

#: Makes the error of what comes too late.
Late: TypeAlias = Callable[..., Exception]

MAX_SENDS: Final = 1024
MAX_BYTES: Final = 64 * 1024 * 1024
#: An answer that takes longer is long in coming.
SLOW_MS: Final = 500


class InFlight:
    """Counts sends and their bytes, and ends what takes too long."""

    def __init__(
        self, clock: Clock, *, max_sends: int = MAX_SENDS, max_bytes: int = MAX_BYTES
    ) -> None:
        """Take how much may be under way at a time; a send longer than all goes alone.

        Raises:
            ValueError: If there would be no room for one.
        """
        if max_sends < 1 or max_bytes < 1:
            raise ValueError(f"max_in_flight {max_sends}, {max_bytes} bytes: at least 1 of each")
        self._clock = clock
        self._max_sends = max_sends
        self._max_bytes = max_bytes
        self.sends = 0
        self.held_bytes = 0
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._idle: asyncio.Future[None] | None = None
        #: What is waited for, until when, and the error if it does not come.
        self._watched: dict[asyncio.Future[Any], tuple[int, Late, tuple[object, ...]]] = {}
        self._look_at_ms: float = math.inf
        self._looking: asyncio.Task[None] | None = None
        #: Is told the address of whoever is slow to answer, again and again while it is.
        self.on_slow: Callable[[str], None] | None = None

    # Room

    def try_enter(self, size: int) -> bool:
        """Take room for a send of so many bytes, if there is; give it back by ``leave``."""
        sends, held_bytes = self.sends, self.held_bytes + size
        if self._line or sends >= self._max_sends or (sends and held_bytes > self._max_bytes):
            return False
        self.sends = sends + 1
        self.held_bytes = held_bytes
        return True

    async def enter(self, size: int, timeout_ms: int) -> int:
        """Take room for a send, and wait for it if need be; give it back by ``leave``.

        Gives the time that is left then.

        Raises:
            ProducerFull: If there is none in time.
        """
        if self.try_enter(size):
            return timeout_ms
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (size, turn)
        self._line.append(place)
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        self.watch(turn, deadline_ms, self._full, timeout_ms)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.leave(size)  # let in, and cancelled in the same moment
            elif place in self._line:
                self._line.remove(place)
                self._let_in()
            raise
        finally:
            self.unwatch(turn)
        return max(0, deadline_ms - self._clock.monotonic_ms())

    def leave(self, size: int, sends: int = 1) -> None:
        """Give back the room of a send that is over, or of several with so many bytes in all."""
        self.sends -= sends
        self.held_bytes -= size
        assert self.sends >= 0, "more left than entered"
        if self._line:
            self._let_in()
        if not self.sends and self._idle is not None:
            self._idle.set_result(None)
            self._idle = None

    async def idle(self) -> None:
        """Wait until no send is under way; each ends by its deadline."""
        while self.sends:
            if self._idle is None:
                self._idle = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)

    def _fits(self, size: int) -> bool:
        if self.sends >= self._max_sends:
            return False
        return not self.sends or self.held_bytes + size <= self._max_bytes

    def _let_in(self) -> None:
        while self._line and (self._line[0][1].done() or self._fits(self._line[0][0])):
            size, turn = self._line.popleft()
            if not turn.done():
                self.sends += 1
                self.held_bytes += size
                turn.set_result(None)

    def _full(self, timeout_ms: int) -> Exception:
        return ProducerFull(self.sends, self.held_bytes, timeout_ms)

    # Deadlines

    def watch(
        self, answer: asyncio.Future[Any], deadline_ms: int, late: Late, *facts: object
    ) -> None:
        """Have ``answer`` fail with what ``late`` makes of facts, unless it is there by then."""
        self._watched[answer] = (deadline_ms, late, facts)
        if deadline_ms < self._look_at_ms:
            if self._looking is not None:
                self._looking.cancel()
            self._look_at_ms = deadline_ms
            self._looking = asyncio.create_task(self._look(), name="send deadlines")

    def unwatch(self, answer: asyncio.Future[Any]) -> None:
        """Wait no longer for it."""
        self._watched.pop(answer, None)

    async def close(self) -> None:
        """End the sleeper; whoever still waits is not watched over any more."""
        looking, self._looking = self._looking, None
        self._look_at_ms = math.inf
        if looking is not None:
            looking.cancel()
            await asyncio.wait([looking])

    async def _look(self) -> None:
        while True:
            now_ms = self._clock.monotonic_ms()
            next_ms: float = math.inf
            slow: set[str] = set()
            for answer, (deadline_ms, late, facts) in list(self._watched.items()):
                if deadline_ms > now_ms:
                    next_ms = min(next_ms, deadline_ms)
                    if late is CallTimeout:
                        address, _, time_ms = facts
                        if isinstance(time_ms, int) and now_ms - deadline_ms + time_ms >= SLOW_MS:
                            slow.add(str(address))
                elif not answer.done():
                    answer.set_exception(late(*facts))
            if self.on_slow is not None:
                for address in slow:
                    self.on_slow(address)
                if next_ms != math.inf:
                    next_ms = min(next_ms, now_ms + SLOW_MS)
            self._look_at_ms = next_ms
            if next_ms == math.inf:
                self._looking = None
                return
            await self._clock.sleep(int(next_ms) - now_ms)
