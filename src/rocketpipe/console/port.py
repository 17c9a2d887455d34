"""Connections of a console: those that the health port hands on, spoken to by uvicorn's HTTP.

uvicorn's own server would take the process's signals and the port; here it is given connections.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from rocketpipe.clock import SystemClock, within
from rocketpipe.health.http_port import MAX_REQUEST_BYTES, More

#: So many connections are open; one more ends the one that has been idle longest.
MAX_CONNECTIONS: Final = 256
_KEEP_ALIVE_S: Final = 30
#: Whoever takes nothing of what is written for so long is not there.
STUCK_S: Final = 30.0
_FINISH_MS: Final = 2000


@asynccontextmanager
async def speaking(app: ASGIApp) -> AsyncIterator[More]:
    """Speak HTTP for an app inside the block; what is given takes a connection each time.

    The app's streams must end by themselves when the block does.
    """
    config = Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        h11_max_incomplete_event_size=2 * MAX_REQUEST_BYTES,
    )
    config.load()
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    state = ServerState()
    #: Who came first stands first.
    open_now: dict[_Connection, None] = {}

    def connected() -> asyncio.Protocol:
        while len(open_now) >= MAX_CONNECTIONS:
            _send_one_away(open_now)
        return _Connection(config, state, open_now)

    try:
        yield connected
    finally:
        for each in list(open_now):
            each.shutdown()
        if state.tasks:
            await within(SystemClock(), _FINISH_MS, asyncio.wait(set(state.tasks)))
        for each in list(open_now):
            each.transport.abort()
        for task in set(state.tasks):
            task.cancel()


class _Connection(H11Protocol):
    """One connection, which is counted, and ended if it is written to and nobody reads."""

    def __init__(
        self, config: Config, state: ServerState, open_now: dict[_Connection, None]
    ) -> None:
        super().__init__(config, state, {}, asyncio.get_running_loop())
        self._open_now = open_now
        self._stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._open_now[self] = None
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_now.pop(self, None)
        self._moves()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._moves()
        self._stuck = self.loop.call_later(STUCK_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._moves()
        super().resume_writing()

    def _moves(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    @property
    def is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete


def _send_one_away(open_now: dict[_Connection, None]) -> None:
    idle = next((each for each in open_now if each.is_idle), None)
    gone = idle if idle is not None else next(iter(open_now))
    open_now.pop(gone)
    gone.transport.abort()
