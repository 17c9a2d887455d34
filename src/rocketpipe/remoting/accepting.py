"""Peers accepted on a listening socket, a few at a turn of the loop.

By hand, because the loop's own way writes a thousand lines whenever the process has no file
descriptor left. Some descriptors are kept for the rest of the process; see
``rocketpipe.descriptors``.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any, Final

_ACCEPTS_A_TURN: Final = 64
_ACCEPT_AGAIN_S: Final = 1.0
_NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Accepting:
    """Hands on whoever connects, between `on` and `off`."""

    def __init__(
        self,
        listening: socket.socket,
        take: Callable[[socket.socket, Any], None],
        wait: Callable[[str], None],
    ) -> None:
        """``take`` is given a socket and its peer's address; ``wait`` why others have to wait."""
        self._listening = listening
        self._take = take
        self._wait = wait
        self._loop = asyncio.get_running_loop()
        self._again: asyncio.TimerHandle | None = None

    def on(self) -> None:
        """Accept from now on."""
        self._again = None
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def off(self) -> None:
        """Accept nobody any more."""
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._listening.fileno())

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_A_TURN):
            try:
                connected, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_DESCRIPTOR:
                    raise
                self._wait(str(error.strerror))
                self.off()
                self._again = self._loop.call_later(_ACCEPT_AGAIN_S, self.on)
                return
            self._take(connected, address)


def prepare(connected: socket.socket) -> None:
    """Make an accepted socket ready for a transport."""
    connected.setblocking(False)
    # asyncio sets it only where the socket says that it is TCP, which accepted ones do not.
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def address_text(name: Any) -> str:
    """``host:port`` of what a socket calls one of its ends."""
    if isinstance(name, tuple) and len(name) >= 2:
        host, port = name[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return str(name or "unknown")
