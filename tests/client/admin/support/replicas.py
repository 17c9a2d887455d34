"""Replicas that answer and register, each on a socket of its own; they hold no log."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.live import LiveSettings
from rocketpipe.broker.config.replication import BrokerRole, ReplicationConfig
from rocketpipe.broker.features.administration.brokers import SettingHandlers
from rocketpipe.broker.handlers.replication import ReplicationHandlers
from rocketpipe.broker.presence.registration import Registrar
from rocketpipe.broker.replication.status import GroupView, ReplicationStatus
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.clock import SystemClock
from rocketpipe.coordination.coordinator import Leader
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.router import Router
from rocketpipe.remoting.server import Server
from rocketpipe.store.config import StoreConfig


class Replica:
    """One of them: what it says of itself, where it is, and how it is registered."""

    def __init__(self, status: ReplicationStatus, address: str, registrar: Registrar) -> None:
        self.status = status
        self.address = address
        self.registrar = registrar
        self.view = GroupView(lambda: self.status)

    async def register(self) -> None:
        """Have it registered as what it says that it is."""
        number = 0 if self.status.leads else self.status.id
        self.registrar.stand(number, self.status.ha_address, self.status.epoch)
        await self.registrar.register()

    def leads(self, **changes: Any) -> None:
        """Make it say that it leads, at its own address."""
        epoch = changes.get("epoch", self.status.epoch)
        leader = Leader(id=self.status.id, epoch=epoch, address=self.address, ha_address="h:1")
        self.status = replace(self.status, role="leading", leader=leader, **changes)


@asynccontextmanager
async def replicas(
    name_server: str, *statuses: ReplicationStatus, **settings: Any
) -> AsyncIterator[list[Replica]]:
    """Replicas of ``broker-r`` that say what they are given, registered with a NameServer."""
    group = ReplicationConfig(role=BrokerRole.SYNC_MASTER, **settings)
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        made = []
        for status in statuses:
            caller = await stack.enter_async_context(Caller())
            server = await stack.enter_async_context(Server.bound("127.0.0.1", 0))
            config = BrokerConfig(
                data=Path(), name="broker-r", name_servers=(name_server,), replication=group
            )
            topics = TopicTable(default_topic_queues=8)
            topics.ensure("replicated", queues=1, now_ms=1)
            registrar = Registrar(config, server.address, topics, caller, clock)
            one = Replica(status, server.address, registrar)
            live = LiveSettings(config, StoreConfig(root=Path()), clock)
            router = Router(
                ReplicationHandlers(config.cluster, config.name, server.address, one.view, clock),
                SettingHandlers(live, registrar),
            )
            await stack.enter_async_context(server.serving(router.answer))
            await one.register()
            made.append(one)
        yield made


@contextmanager
def replicas_beside(name_server: str, *statuses: ReplicationStatus) -> Iterator[list[Replica]]:
    """The same in a thread, for tests of commands, which have a loop of their own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    serving = replicas(name_server, *statuses)
    try:
        yield asyncio.run_coroutine_threadsafe(serving.__aenter__(), loop).result(30)
    finally:
        asyncio.run_coroutine_threadsafe(serving.__aexit__(None, None, None), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
