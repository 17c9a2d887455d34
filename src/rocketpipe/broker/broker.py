"""A broker: builds the parts, starts them and takes them down; nothing else."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from rocketpipe.background import running
from rocketpipe.broker.config import BrokerConfig
from rocketpipe.broker.delivery.long_poll import WaitingPulls
from rocketpipe.broker.handlers.clients import ClientHandlers
from rocketpipe.broker.handlers.offsets import OffsetHandlers
from rocketpipe.broker.handlers.pulling import PullHandlers
from rocketpipe.broker.handlers.sending import SendHandlers
from rocketpipe.broker.registration import Registrar
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.model.host import Host
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.router import Router
from rocketpipe.remoting.server import Server
from rocketpipe.store.message_store import MessageStore

log = logging.getLogger(__name__)


@asynccontextmanager
async def broker(
    config: BrokerConfig, *, clock: Clock | None = None, chance: random.Random | None = None
) -> AsyncIterator[str]:
    """Run a broker inside the block, which is given the address it listens on.

    Raises:
        OSError: If the port is taken.
        StoreError: If the data directory cannot be used.
    """
    clock = clock or SystemClock()
    chance = chance or random.Random()  # noqa: S311 - it spreads load, it guards nothing
    async with Server.bound(config.host, config.port) as server, Caller() as caller:
        store_host = Host.parse(server.address).pack()
        waiting = WaitingPulls()
        topics = TopicTable(config.default_topic_queues)
        offsets = OffsetTable()
        registrar = Registrar(config, server.address, topics, caller, clock)
        clients = ClientHandlers(ClientTable(), topics, registrar, clock)
        with closing(MessageStore(config.data, store_host, clock.now_ms, waiting.notify)) as store:
            router = Router(
                SendHandlers(store, topics, registrar, config, store_host, clock, chance),
                PullHandlers(store, topics, offsets, waiting, clock, config.max_suspend_ms),
                OffsetHandlers(store, offsets),
                clients,
            )
            async with (
                server.serving(router.answer, clients.forget_peer),
                _registered(registrar),
            ):
                log.info("broker started name=%s address=%s", config.name, server.address)
                yield server.address


@asynccontextmanager
async def _registered(registrar: Registrar) -> AsyncIterator[None]:
    """Known to the NameServers inside the block, and only there."""
    await registrar.register()
    try:
        async with running(registrar.keep_registered(), "registration"):
            yield
    finally:
        await registrar.unregister()
