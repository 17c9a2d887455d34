"""Processes that share one thread and one time, which passes only when none of them has work.

    SimLoop     the loop of them all: a timer, and whose turn it is, which the seed decides
    SimProcess  what runs in its context is its: callbacks, tasks, connections. It can stand still,
                as at SIGSTOP, or be killed: then none of its code runs again

Within a process callbacks run in the order in which they became ready, as asyncio promises. What a
thread would do is done on the loop, somewhat later.
"""

from __future__ import annotations

import asyncio
import contextvars
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, Protocol


class Sockets(Protocol):
    """The network, as the loop's users reach it."""

    async def connect(self, factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        """Connect from the process that runs."""
        ...

    async def accepted(self, factory: Callable[[], Any], sock: Any) -> tuple[Any, Any]:
        """Speak over what was accepted."""
        ...


class SimProcess:
    """One process: what it has to do next, and whether it may."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready: deque[events.Handle] = deque()
        self.paused = False
        self.dead = False
        self.tasks: list[asyncio.Task[Any]] = []
        self.context = contextvars.copy_context()
        self.context.run(_PROCESS.set, self)

    def kill(self) -> None:
        """None of its code runs from here on, not even what was to run at its end."""
        self.dead = True
        self.ready.clear()


_PROCESS: contextvars.ContextVar[SimProcess | None] = contextvars.ContextVar(
    "process", default=None
)


def current_process() -> SimProcess | None:
    """The process whose code runs now; None outside of all."""
    return _PROCESS.get()


class Killed(BaseException):
    """Comes out of whatever a killed process waited for, when nothing can come of it any more."""


def _close(coro: Any) -> None:
    """End a coroutine, however often it waits for something at its end."""
    for _ in range(100):
        try:
            coro.throw(Killed())  # unlike ``close``, this ends generators that it waits for
        except BaseException:
            return


class Stuck(AssertionError):
    """Nobody has anything to do any more."""


class SimLoop(asyncio.BaseEventLoop):
    """A loop for `SimProcess`es; ``sockets`` is given before anybody connects."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance = Random(seed)
        self.sockets: Sockets | None = None
        #: What is no process's: the world around them.
        self.world = SimProcess("world")
        self._now = 0.0
        self._order = count()
        self._timers: list[tuple[float, int, events.TimerHandle]] = []
        self._busy: list[SimProcess] = []
        self._readers: dict[int, tuple[Callable[..., Any], contextvars.Context]] = {}
        self._buried: list[SimProcess] = []
        self.turns = 0
        self.set_task_factory(self._new_task)

    # Time and order

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> events.Handle:
        handle = events.Handle(callback, args, self, context)
        self._enqueue(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> events.TimerHandle:
        timer = events.TimerHandle(when, callback, args, self, context)
        heappush(self._timers, (when, next(self._order), timer))
        return timer

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        """It is passed over when its time comes."""

    def _enqueue(self, handle: events.Handle) -> None:
        process = handle._context.get(_PROCESS) or self.world  # type: ignore[attr-defined]
        if process.dead:
            return
        if not process.ready:
            self._busy.append(process)
        process.ready.append(handle)

    def _run_once(self) -> None:
        """Give one process its turn: it does what was ready when the turn began."""
        process = self._next()
        if process is None:
            self._wait()
            return
        self.turns += 1
        ready = process.ready
        for _ in range(len(ready)):
            if not ready:  # it was killed
                break
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
        if not ready:
            self._busy.remove(process)

    def _next(self) -> SimProcess | None:
        """Whose turn it is, of those that have something to do."""
        busy = self._busy
        if len(busy) == 1:
            return None if busy[0].paused else busy[0]
        able = [each for each in busy if not each.paused]
        return able[int(self.chance.random() * len(able))] if able else None

    def _wait(self) -> None:
        """Have time pass until something is due."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        if not timers:
            raise Stuck("nobody has anything to do any more")
        self._now = now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= now:
            timer = heappop(timers)[2]
            if not timer._cancelled:
                self._enqueue(timer)

    # What asyncio asks a loop for

    def _process_events(self, event_list: list[Any]) -> None:
        """There are no descriptors."""

    def _write_to_self(self) -> None:
        """Nobody sleeps who would have to be woken."""

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        """Who was killed closes nothing."""

    def _new_task(
        self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **more: Any
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=loop, **more)
        process = _PROCESS.get() or self.world
        tasks = process.tasks
        tasks.append(task)
        if len(tasks) > 200:
            process.tasks = [each for each in tasks if not each.done()]
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """A thread that has begun goes on, whether or not somebody still waits for it."""
        done: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            try:
                result = func(*args)
            except Exception as error:
                if not done.cancelled():
                    done.set_exception(error)
            else:
                if not done.cancelled():
                    done.set_result(result)

        self.call_later(self.chance.choice((0.0, 0.001, 0.004)), work)
        return done

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: str, port: int
    ) -> tuple[Any, Any]:
        assert self.sockets is not None
        return await self.sockets.connect(protocol_factory, host, port)

    async def connect_accepted_socket(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], sock: Any
    ) -> tuple[Any, Any]:
        assert self.sockets is not None
        return await self.sockets.accepted(protocol_factory, sock)

    def add_reader(self, fd: int, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        self._readers[fd] = (callback, contextvars.copy_context())

    def remove_reader(self, fd: int) -> bool:  # type: ignore[override]
        return self._readers.pop(fd, None) is not None

    def readable(self, fd: int) -> None:
        """Something has come for whoever listens there."""
        if (reader := self._readers.get(fd)) is not None:
            self.call_soon(reader[0], context=reader[1])

    # Processes

    def spawn(self, process: SimProcess, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Have a process do something."""
        return process.context.run(self.create_task, work)  # type: ignore[arg-type]

    def bury(self, process: SimProcess) -> None:
        """Keep what a killed process had under way, untouched, until the end of all."""
        process.kill()
        if process in self._busy:
            self._busy.remove(process)
        self._buried.append(process)

    def close(self) -> None:
        """End everything: coroutines that were under way are closed where they are."""
        for process in (*self._buried, self.world):
            process.kill()
            for task in process.tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    _close(task.get_coro())
            process.tasks.clear()
        self._timers.clear()
        self._busy.clear()
        super().close()
