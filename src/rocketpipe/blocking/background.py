"""The one thread that runs the loop of a process's blocking clients.

It starts with the first client that is opened, and ends when the last one is closed or with the
process.

Most of what a call costs is waking: the loop, and then the caller. So callers put their calls in
line and wake the loop once for many; and the loop wakes one of those whose calls are settled, which
wakes the next one before it goes on. If all were woken at once they would only queue for the
interpreter. The last one wakes the loop for whatever the others have put in line by then.
"""

from __future__ import annotations

import asyncio
import atexit
import importlib
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, TypeVar

from rocketpipe.errors import LoopBlocked, ProcessForked, SessionClosed

log = logging.getLogger(__name__)

T = TypeVar("T")

#: How long the end of a client, or of the process, waits for the thread's end.
STOP_TIMEOUT_S: Final = 5
#: How much of that is for work that nobody waits for any more, to clean up after itself.
CLEAN_UP_S: Final = 3
#: How often the main thread looks up from its wait: a signal that comes just before it begins to
#: wait does not end the wait, and on Windows none does.
LOOK_UP_S: Final = 0.2


class _Call:
    """Work that a thread waits for; ``done`` is held until the thread may go on."""

    __slots__ = ("done", "error", "is_left", "result", "task", "work")

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self.work = work
        self.task: asyncio.Task[Any] | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        #: Whether its thread waits no longer.
        self.is_left = False
        self.done = threading.Lock()
        self.done.acquire()

    def settle(self, task: asyncio.Task[Any]) -> None:
        """Note what the task came to."""
        if task.cancelled():
            self.error = _closed()
        else:
            self.error = task.exception()
            if self.error is None:
                self.result = task.result()

    def refuse(self) -> None:
        """Tell the caller that nothing was begun, and nothing will be."""
        self.work.close()
        self.error = _closed()
        self.done.release()


class BackgroundLoop:
    """A loop on a thread of its own, that works for threads which wait."""

    def __init__(self) -> None:
        """Start the thread."""
        self._process_id = os.getpid()
        self._loop = _new_loop()
        self._stopping = asyncio.Event()
        self._line: deque[_Call] = deque()
        self._is_woken = False
        self._calls: dict[asyncio.Task[Any], _Call] = {}
        self._settled: deque[_Call] = deque()
        #: Whether a caller was woken that will wake the next one.
        self._is_passing = False
        self.is_over = False
        self._thread = threading.Thread(target=self._serve, name="rocketpipe", daemon=True)
        self._thread.start()
        self._thread_id = self._thread.ident
        self._main_id = threading.main_thread().ident

    @property
    def is_ours(self) -> bool:
        """Whether it was started in this process: a forked child has the loop, not the thread."""
        return self._process_id == os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether the caller runs on the loop itself."""
        return self._thread_id == threading.get_ident()

    def check(self) -> None:
        """Say clearly that a call would never be answered, if so.

        Raises:
            ProcessForked: If the loop runs in another process.
            LoopBlocked: If the caller runs on the loop, which could do nothing while it waits.
        """
        if self._process_id != os.getpid():
            raise ProcessForked(self._process_id, os.getpid())
        if self._thread_id == threading.get_ident():
            raise LoopBlocked

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the loop do this, and wait for what comes of it; what it raises is raised here.

        Who stops waiting, as by Ctrl-C, has the work cancelled.

        Raises:
            ProcessForked, LoopBlocked: As by ``check``.
            SessionClosed: If the loop ends before.
        """
        try:
            self.check()
        except Exception:
            work.close()
            raise
        call = _Call(work)
        try:
            self._line.append(call)
            if not self._is_passing:
                self._wake_loop()
            if self.is_over:
                self._refuse_calls()
            if threading.get_ident() == self._main_id:
                while not call.done.acquire(timeout=LOOK_UP_S):
                    # This may be a signal's handler. The call that it interrupts was perhaps told
                    # to wake the next one, and does not go on before this one has its answer.
                    self._pass_on()
            else:
                call.done.acquire()
            self._pass_on()
        except BaseException:
            call.is_left = True
            self._soon(self._cancel, call)
            self._pass_on()  # it may have been woken, and expected to
            raise
        if call.error is None:
            return call.result  # type: ignore[no-any-return]
        try:
            raise call.error
        finally:
            # The error's traceback leads to this frame, and this frame to the error.
            del call

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have the loop do this, and go on; the future has what comes of it.

        Raises:
            ProcessForked: If the loop runs in another process.
            SessionClosed: If it has ended.
        """
        try:
            if not self.is_ours:
                raise ProcessForked(self._process_id, os.getpid())
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError as error:
            work.close()
            raise _closed() from error
        except ProcessForked:
            work.close()
            raise

    def tell(self, act: Callable[..., object], *args: object) -> None:
        """Have the loop call this, and go on.

        Raises:
            ProcessForked: If the loop runs in another process.
            SessionClosed: If it has ended.
        """
        if not self.is_ours:
            raise ProcessForked(self._process_id, os.getpid())
        try:
            self._loop.call_soon_threadsafe(act, *args)
        except RuntimeError as error:
            raise _closed() from error

    def stop(self) -> None:
        """End the thread: callers that still wait are told, and what they waited for is cancelled.

        It is the thread's own business when it is asked to end from within.
        """
        self._soon(self._stopping.set)
        if self.is_here:
            return
        self._thread.join(STOP_TIMEOUT_S)
        if self._thread.is_alive():
            log.warning("the clients' loop does not end; something blocks it")

    # On the loop

    def _serve(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._until_stopped())
        finally:
            # A call that came too late sees this, or is seen here.
            self.is_over = True
            self._wake_all()
            self._refuse_calls()

    async def _until_stopped(self) -> None:
        await self._stopping.wait()
        if left := [task for task, call in self._calls.items() if call.is_left]:
            await asyncio.wait(left, timeout=CLEAN_UP_S)

    def _start_calls(self) -> None:
        self._is_woken = False
        if self._stopping.is_set():
            return  # they are refused when everything has ended
        line, calls, create_task = self._line, self._calls, self._loop.create_task
        while line:
            call = line.popleft()
            call.task = task = create_task(call.work)
            calls[task] = call
            task.add_done_callback(self._settle)

    def _settle(self, task: asyncio.Task[Any]) -> None:
        call = self._calls.pop(task)
        call.settle(task)
        self._settled.append(call)
        if not self._is_passing:
            self._is_passing = True
            self._loop.call_soon(self._wake_next)  # after the others of this turn

    def _cancel(self, call: _Call) -> None:
        self._start_calls()  # it may stand in line yet
        if call.task is not None:
            call.task.cancel()
        else:
            call.work.close()  # it never came so far

    # On any thread

    def _wake_loop(self) -> None:
        # Two threads may both come to the second line: one wake-up finds nothing in line.
        if not self._is_woken:
            self._is_woken = True
            self._soon(self._start_calls)

    def _wake_next(self) -> None:
        """Let a caller go on whose call is settled, or else the loop."""
        while True:
            try:
                call = self._settled.popleft()
            except IndexError:
                self._is_passing = False
                if self._settled:
                    # By a loop that thought we were passing. If it has seen since that we are not,
                    # two threads pass on, which does no harm.
                    self._is_passing = True
                    continue
                if self._line:
                    self._wake_loop()
                return
            if not call.is_left:
                call.done.release()
                return

    def _wake_all(self) -> None:
        """Let every caller go on, when there is no loop any more that could do its part."""
        while self._settled:
            with suppress(IndexError):
                self._settled.popleft().done.release()

    def _pass_on(self) -> None:
        if threading.get_ident() != self._main_id:
            self._wake_next()
            return
        # Between any two steps of the main thread a signal may raise, and another thread's call
        # would be lost with it. The loop has no such trouble.
        self._is_passing = False
        if self._settled or self._line:
            self._soon(self._wake_next)

    def _soon(self, act: Callable[..., object], *args: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be woken
            self._loop.call_soon_threadsafe(act, *args)

    def _refuse_calls(self) -> None:
        while True:
            try:
                call = self._line.popleft()
            except IndexError:
                return
            call.refuse()


class Life:
    """When one client is open, and on which loop."""

    __slots__ = ("loop", "times", "what")

    def __init__(self, what: str) -> None:
        self.what = what
        self.loop: BackgroundLoop | None = None
        #: How often it was opened and not closed.
        self.times = 0

    def here(self) -> BackgroundLoop:
        """The loop to run on.

        Raises:
            SessionClosed: If the client is not open.
        """
        loop = self.loop
        if loop is None:
            raise SessionClosed(self.what, "with")
        return loop


class SharedLoop:
    """Hands out the one loop of the process, to as many lives as there are."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._loop: BackgroundLoop | None = None
        self._users = 0
        self._is_hooked = False

    def begin(self, life: Life) -> BackgroundLoop:
        """Open a life, and start the loop if it is the first one."""
        with self._gate:
            self._hook()
            if self._loop is None or self._loop.is_over:
                self._loop, self._users = BackgroundLoop(), 0
            if life.loop is not self._loop:  # left open by a parent process, or on a loop that died
                life.loop, life.times = self._loop, 0
            self._users += 1
            life.times += 1
            return self._loop

    def end(self, life: Life) -> None:
        """Close a life, and stop the loop if it was the last one."""
        with self._gate:
            loop = life.loop
            life.times -= 1
            if life.times <= 0:
                life.loop = None
            if loop is None or loop is not self._loop:
                return
            self._users -= 1
            if self._users:
                return
            self._loop = None
        loop.stop()

    def _hook(self) -> None:
        if not self._is_hooked:
            self._is_hooked = True
            atexit.register(self._at_exit)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=self._in_child)

    def _at_exit(self) -> None:
        # Clients that nobody closed: what they have in hand is left as by a crash.
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.stop()

    def _in_child(self) -> None:
        # Another thread may have held the gate. Lives keep the parent's loop: to close it here
        # would take the parent's sockets out of the parent's selector.
        self._gate = threading.Lock()
        self._loop, self._users = None, 0


shared: Final = SharedLoop()


def _closed() -> SessionClosed:
    return SessionClosed("the client", "with")


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
