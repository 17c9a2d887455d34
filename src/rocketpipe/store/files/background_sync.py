"""What waits for the disk, done beside the thread that appends and answers.

    the store's thread    a portion is begun: written, and told what of it has to be synced
    any thread            it is waited for
    the store's thread    that it is durable is noted, or undone

What is handed over is done in the order in which it came: of two that save the same file, the later
one has the last word.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from rocketpipe.store.errors import StoreClosed

T = TypeVar("T")

#: Returns once what was handed over is done; any thread may call it.
Wait = Callable[[], None]
#: What a store does in steps. Between two of them it waits as it was told, and others may go on.
Steps = Generator[Wait, None, T]

_JOIN_SECONDS: Final = 30


def run_steps_blocking(steps: Steps[T]) -> T:
    """Carry out all steps here, one after the other; gives what comes of them."""
    while True:
        try:
            wait = next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        wait()


def pause() -> None:
    """Wait for nothing: a step ends here only for others to have their turn."""


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class PendingSync:
    """Something that was written and has to become durable.

    ``wait`` may be called on any thread. Then one of the others is, on the store's own.
    """

    wait: Wait
    note: Callable[[], None] = _nothing
    undo: Callable[[], None] = _nothing

    @classmethod
    def of(cls, portions: Sequence[PendingSync]) -> PendingSync:
        """Several as one."""

        def each(calls: Sequence[Callable[[], None]]) -> Callable[[], None]:
            def call_all() -> None:
                for call in calls:
                    call()

            return call_all

        return cls(
            each([portion.wait for portion in portions]),
            each([portion.note for portion in portions]),
            each([portion.undo for portion in portions]),
        )

    def now(self) -> None:
        """Wait for it here, and note it.

        Raises:
            DiskError: It may not be durable, and is undone.
        """
        try:
            self.wait()
        except BaseException:
            self.undo()
            raise
        self.note()


class Work:
    """One thing that was handed over: whether it is done, and what went wrong."""

    def __init__(self, do: Wait) -> None:
        self._do = do
        self._done = threading.Event()
        self.error: Exception | None = None

    @property
    def done(self) -> bool:
        """Whether it is over, well or not."""
        return self._done.is_set()

    def wait(self) -> None:
        """Return once it is over."""
        self._done.wait()

    def run(self) -> None:
        """Do it."""
        try:
            self._do()
        except Exception as error:
            self.error = error
        finally:
            self._done.set()

    def drop(self) -> None:
        """Leave it undone."""
        self.error = StoreClosed()
        self._done.set()


class Worker:
    """Does what it is given at once. `WorkerThread` does not."""

    #: Whether what is handed over may still be under way when `do` returns.
    aside = False

    def do(self, what: Wait) -> Work:
        """Have something done."""
        work = Work(what)
        work.run()
        return work

    def stop(self) -> None:
        """Finish what was given; more is done at once."""

    def drop(self) -> None:
        """Do nothing more but what is under way."""


class WorkerThread(Worker):
    """Does what it is given on a thread of its own, one thing after the other."""

    aside = True

    def __init__(self, name: str) -> None:
        """Start the thread."""
        self._changed = threading.Condition()
        self._given: deque[Work] = deque()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def do(self, what: Wait) -> Work:
        """Have something done, after all that was given before."""
        work = Work(what)
        with self._changed:
            if not self._stopping:
                self._given.append(work)
                self._changed.notify()
                return work
        work.run()
        return work

    def stop(self) -> None:
        """Finish what was given, and end the thread; more is done at once, by whoever gives it."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(_JOIN_SECONDS)

    def drop(self) -> None:
        """Finish only what is under way, and end the thread."""
        with self._changed:
            dropped, self._given = self._given, deque()
        for work in dropped:
            work.drop()
        self.stop()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._given and not self._stopping:
                    self._changed.wait()
                if not self._given:
                    return
                work = self._given.popleft()
            work.run()
