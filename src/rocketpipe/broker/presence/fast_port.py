"""The second port that RocketMQ's brokers have, two below the first.

There it is for requests that are not to wait behind others; here nobody waits for long, and both
ports are alike. But some only know the second: RocketMQ's dashboard sends everything there unless
it is told otherwise (``isVIPChannel``), and so do producers of before 4.5.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.remoting.server import Server

log = logging.getLogger(__name__)

BELOW: Final = 2


@asynccontextmanager
async def fast_port(config: BrokerConfig) -> AsyncIterator[Server | None]:
    """Hold the second port inside the block.

    It is None where the first was left to the system, as nobody could know of it then; where it is
    switched off; and where somebody else has that port, which a warning tells.
    """
    async with AsyncExitStack() as stack:
        server = None
        port = config.port - BELOW
        if config.fast_port and port > 0:
            try:
                server = await stack.enter_async_context(Server.bound(config.host, port))
            except OSError as error:
                log.warning(
                    "no second port: dashboards and old producers need it, unless they are told "
                    "not to use the VIP channel reason=%s",
                    error.strerror or error,
                )
        yield server
