"""A NameServer and a broker for the length of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.clock import Clock
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.store.config import StoreConfig


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the servers of a test listen."""

    name_server: str
    broker: str


@asynccontextmanager
async def cluster(data: Path, *, clock: Clock | None = None) -> AsyncIterator[Cluster]:
    """Run both servers in this process, on free ports, inside the block."""
    async with name_server(NamesrvConfig(port=0), clock=clock) as namesrv_address:
        config = BrokerConfig(
            data=data,
            name_servers=(namesrv_address,),
            port=0,
            store=StoreConfig.embedded(data),
        )
        async with broker(config, clock=clock) as broker_address:
            yield Cluster(namesrv_address, broker_address)
