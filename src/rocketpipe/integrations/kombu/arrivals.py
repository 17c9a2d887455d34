"""What came for the consumers of one connection, behind a descriptor that Kombu's hub can watch."""

from __future__ import annotations

import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Arrivals(Generic[T]):
    """A line of arrivals: any thread adds, one takes; readable while there is something."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._line: deque[T | BaseException] = deque()
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._ours, selectors.EVENT_READ)
        self._is_closed = False

    def fileno(self) -> int:
        """What to wait for."""
        return self._ours.fileno()

    def __len__(self) -> int:
        return len(self._line)

    def add(self, *arrivals: T | BaseException) -> bool:
        """Add what came, or an error for whoever takes next; False if nobody will."""
        with self._gate:
            if self._is_closed:
                return False
            was_empty = not self._line
            self._line.extend(arrivals)
            if was_empty and self._line:
                self._theirs.send(b"\0")
            return True

    def take(self) -> T | None:
        """The next one; None if there is none.

        Raises:
            BaseException: One that was added.
        """
        with self._gate:
            if not self._line:
                return None
            taken = self._line.popleft()
            if not self._line:
                self._ours.recv(1)
        if isinstance(taken, BaseException):
            raise taken
        return taken

    def withdraw(self, unwanted: Callable[[T], bool]) -> list[T]:
        """Take out of the line what nobody wants any more."""
        with self._gate:
            if not self._line:
                return []
            taken: list[T] = []
            kept: deque[T | BaseException] = deque()
            for each in self._line:
                if isinstance(each, BaseException) or not unwanted(each):
                    kept.append(each)
                else:
                    taken.append(each)
            self._line = kept
            if not kept:
                self._ours.recv(1)
            return taken

    def wait(self, timeout: float | None) -> bool:
        """Wait until there is something; False when the time is up first."""
        return bool(self._line) or bool(self._selector.select(timeout))

    def close(self) -> list[T]:
        """Take nothing more, and give what nobody took."""
        with self._gate:
            if self._is_closed:
                return []
            self._is_closed = True
            left = [each for each in self._line if not isinstance(each, BaseException)]
            self._line.clear()
        self._selector.close()
        self._ours.close()
        self._theirs.close()
        return left
