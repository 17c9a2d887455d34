"""A broker: builds the parts, starts them and takes them down; nothing else."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Final

from rocketpipe.background import running
from rocketpipe.broker.config import BrokerConfig
from rocketpipe.broker.delivery.durability import Durability
from rocketpipe.broker.delivery.long_poll import WaitingPulls
from rocketpipe.broker.handlers.clients import ClientHandlers
from rocketpipe.broker.handlers.offsets import OffsetHandlers
from rocketpipe.broker.handlers.pulling import PullHandlers
from rocketpipe.broker.handlers.sending import SendHandlers
from rocketpipe.broker.registration import Registrar
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.tables import Tables
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.errors import StoreError
from rocketpipe.model.host import Host
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.router import Router
from rocketpipe.remoting.server import Server
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.retention import Committed, Pins, Retention

#: As RocketMQ's brokers do.
TIDY_FIRST_MS: Final = 60_000
TIDY_EVERY_MS: Final = 10_000

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
    disk = Disk()
    async with Server.bound(config.host, config.port) as server, Caller() as caller:
        store_host = Host.parse(server.address).pack()
        waiting = WaitingPulls()
        with closing(_open_store(config, disk, clock, store_host, waiting)) as store:
            tables = Tables(
                disk,
                StoreLayout(config.data).config,
                clock,
                default_topic_queues=config.default_topic_queues,
            )
            tables.load()
            tables.adopt(store.queues())
            durability = Durability(store, clock)
            topics, offsets = tables.topics, tables.offsets
            registrar = Registrar(config, server.address, topics, caller, clock)
            clients = ClientHandlers(ClientTable(), topics, registrar, clock)
            router = Router(
                SendHandlers(
                    store, durability, topics, registrar, config, store_host, clock, chance
                ),
                PullHandlers(store, topics, offsets, waiting, clock, config.max_suspend_ms),
                OffsetHandlers(store, offsets),
                clients,
            )
            retention = Retention(
                store,
                disk=disk,
                clock=clock,
                pins=Pins(),
                committed=lambda: (Committed(*place) for place in offsets.all()),
            )
            async with (
                _saved(tables),
                running(_keep_tidy(retention, clock), "retention"),
                running(durability.keep_dispatched(), "dispatch"),
                server.serving(router.answer, clients.forget_peer),
                _registered(registrar),
            ):
                log.info("broker started name=%s address=%s", config.name, server.address)
                yield server.address


def _open_store(
    config: BrokerConfig, disk: Disk, clock: Clock, store_host: bytes, waiting: WaitingPulls
) -> MessageStore:
    return MessageStore.open(
        config.store or StoreConfig(root=config.data),
        disk=disk,
        clock=clock,
        store_host=store_host,
        on_arrival=lambda topic, queue_id, *_: waiting.notify(topic, queue_id),
    )


@asynccontextmanager
async def _saved(tables: Tables) -> AsyncIterator[None]:
    """Tables are saved inside the block again and again, and once more at its end."""
    try:
        async with running(tables.keep_saved(), "tables"):
            yield
    finally:
        tables.save()


async def _keep_tidy(retention: Retention, clock: Clock) -> None:
    """Let files go when their time has come, and refuse appends while the disk is full."""
    await clock.sleep(TIDY_FIRST_MS)
    while True:
        try:
            retention.run()
        except StoreError as error:
            log.warning("nothing could be removed reason=%s", error)
        await clock.sleep(TIDY_EVERY_MS)


@asynccontextmanager
async def _registered(registrar: Registrar) -> AsyncIterator[None]:
    """Known to the NameServers inside the block, and only there."""
    await registrar.register()
    try:
        async with running(registrar.keep_registered(), "registration"):
            yield
    finally:
        await registrar.unregister()
