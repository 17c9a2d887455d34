"""The HTTP port of a process that has no loop of its own: the port has one, on a thread."""

from __future__ import annotations

import asyncio
import threading
from typing import Final

from rocketpipe.health.http_port import Told, health_port

_STOP_TIMEOUT_S: Final = 10


class HttpThread:
    """A port that answers until ``close``, or until the process ends."""

    def __init__(self, host: str, port: int, watched: Told) -> None:
        """Open the port.

        Raises:
            PortUnavailable: If it is taken, or the address is not this machine's.
        """
        #: ``host:port``, as it came out.
        self.address = ""
        self._failure: BaseException | None = None
        self._opened = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Event | None = None
        self._thread = threading.Thread(
            target=self._run, args=(host, port, watched), name="http port", daemon=True
        )
        self._thread.start()
        self._opened.wait()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Close the port; closed already, nothing happens."""
        if self._thread.is_alive() and self._loop is not None and self._closing is not None:
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join(_STOP_TIMEOUT_S)

    def _run(self, host: str, port: int, watched: Told) -> None:
        try:
            asyncio.run(self._serve(host, port, watched))
        except BaseException as error:
            self._failure = error
        finally:
            self._opened.set()

    async def _serve(self, host: str, port: int, watched: Told) -> None:
        async with health_port(host, port, watched) as address:
            self.address = address
            self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
            self._opened.set()
            await self._closing.wait()
