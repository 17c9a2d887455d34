"""A NameServer: builds the parts, runs them, and takes them down."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from rocketpipe.background import running
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.namesrv.handlers import RouteHandlers
from rocketpipe.namesrv.route_table import RouteTable
from rocketpipe.remoting.router import Router
from rocketpipe.remoting.server import Server

log = logging.getLogger(__name__)

EXPIRY_SCAN_MS: Final = 5_000


@asynccontextmanager
async def name_server(
    host: str = "127.0.0.1", port: int = 9876, *, clock: Clock | None = None
) -> AsyncIterator[str]:
    """Run a NameServer inside the block, which is given the address it listens on.

    Raises:
        OSError: If the port is taken.
    """
    clock = clock or SystemClock()
    routes = RouteTable()
    handlers = RouteHandlers(routes, clock)
    async with (
        Server.bound(host, port) as server,
        server.serving(Router(handlers).answer, handlers.forget_peer),
        running(_expire_silent(routes, clock), "expiry of silent brokers"),
    ):
        log.info("name server started address=%s", server.address)
        yield server.address


async def _expire_silent(routes: RouteTable, clock: Clock) -> None:
    while True:
        await clock.sleep(EXPIRY_SCAN_MS)
        for broker in routes.expire(clock.now_ms()):
            log.warning("broker expired name=%s id=%d", broker.name, broker.broker_id)
