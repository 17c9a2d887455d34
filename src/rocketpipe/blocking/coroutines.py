"""Coroutines of one's own on the loop of the blocking clients.

    with Background() as background:
        session = background.run(open_session())      # waits for it
        fetching = background.start(fetch(session))   # goes on; a future has the result

For programs of threads that need more of asyncio's clients than a call at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Self, TypeVar

from rocketpipe.blocking.background import BackgroundLoop, Life
from rocketpipe.blocking.wrapper import Client
from rocketpipe.errors import SessionClosed

T = TypeVar("T")


class _Nothing:
    """A client that has nothing to open."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None: ...


class Background(Client[_Nothing]):
    """The loop that blocking clients run on, for coroutines. Use it inside ``with``.

    A child that was forked has no loop of its parent's: it opens a ``Background`` of its own.
    """

    def __init__(self) -> None:
        """Prepare; the loop is there inside the ``with``."""
        super().__init__(_Nothing(), Life("the background"))

    @property
    def is_ours(self) -> bool:
        """Whether it was opened in this process, and not in one that this one was forked from."""
        loop = self._life.loop
        return loop is None or loop.is_ours

    @property
    def is_here(self) -> bool:
        """Whether the caller runs on the loop itself, where ``run`` would wait for itself."""
        loop = self._life.loop
        return loop is not None and loop.is_here

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the loop do this, and wait for what comes of it; what it raises is raised here.

        Raises:
            SessionClosed: Outside of its ``with``.
            ProcessForked: In a child of the process that opened it.
            LoopBlocked: On the loop.
        """
        return self._loop_for(work).run(work)

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have the loop do this, and go on; the future has what comes of it.

        What still runs when the last client of the process is closed is cancelled.

        Raises:
            SessionClosed: Outside of its ``with``.
            ProcessForked: In a child of the process that opened it.
        """
        return self._loop_for(work).start(work)

    def tell(self, act: Callable[..., object], *args: object) -> None:
        """Have the loop call this, which waits for nothing, and go on; calls come in their order.

        Raises:
            SessionClosed: Outside of its ``with``.
            ProcessForked: In a child of the process that opened it.
        """
        self._life.here().tell(act, *args)

    def _loop_for(self, work: Coroutine[Any, Any, Any]) -> BackgroundLoop:
        try:
            return self._life.here()
        except SessionClosed:
            work.close()
            raise
