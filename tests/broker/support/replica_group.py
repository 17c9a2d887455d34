"""Brokers of one name in this process, on free ports, each with its directory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.replication import BrokerRole, ReplicationConfig
from rocketpipe.broker.core import Core
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.store.config import FlushMode, StoreConfig


@dataclass(slots=True)
class Running:
    """One broker that runs: where it is reached, and its parts of this moment."""

    address: str
    cores: list[Core]
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def core(self) -> Core:
        return self.cores[-1]

    @property
    def log_end(self) -> int:
        return self.core.store.positions.written

    async def stop(self) -> None:
        await self.stack.aclose()


class ReplicaGroup:
    """Starts and stops brokers that share a name and a NameServer."""

    def __init__(self, root: Path, name_server: str, stack: AsyncExitStack) -> None:
        self.root = root
        self.name_server = name_server
        self._stack = stack
        #: What else the settings of those say that are started from now on.
        self.settings: dict[str, Any] = {}

    def config(
        self,
        directory: str,
        role: BrokerRole | None,
        *,
        broker_id: int = 0,
        name: str = "broker-a",
        flush: FlushMode = FlushMode.ASYNC,
        segment_bytes: int | None = None,
        **settings: object,
    ) -> BrokerConfig:
        root = self.root / directory
        store = replace(StoreConfig.embedded(root), flush=flush)
        if segment_bytes is not None:
            store = replace(store, segment_bytes=segment_bytes)
        return BrokerConfig(
            data=root,
            name=name,
            broker_id=broker_id,
            name_servers=(self.name_server,),
            port=0,
            store=store,
            replication=ReplicationConfig(role=role, **settings),  # type: ignore[arg-type]
        )

    async def start(self, config: BrokerConfig) -> Running:
        cores: list[Core] = []
        stack = AsyncExitStack()
        config = replace(config, **self.settings)
        address = await stack.enter_async_context(broker(config, watch=cores.append))
        self._stack.push_async_callback(stack.aclose)
        return Running(address, cores, stack)

    async def master(
        self, directory: str = "master", role: BrokerRole = BrokerRole.ASYNC_MASTER, **more: object
    ) -> Running:
        return await self.start(self.config(directory, role, **more))  # type: ignore[arg-type]

    async def slave(self, directory: str = "slave", broker_id: int = 1, **more: object) -> Running:
        config = self.config(
            directory,
            BrokerRole.SLAVE,
            broker_id=broker_id,
            **more,  # type: ignore[arg-type]
        )
        return await self.start(config)


@asynccontextmanager
async def replica_group(root: Path) -> AsyncIterator[ReplicaGroup]:
    """Have a NameServer inside the block; brokers that were started in it stop at its end."""
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(name_server(NamesrvConfig(port=0)))
        yield ReplicaGroup(root, address, stack)


def log_bytes(core: Core) -> bytes:
    """The whole log of a store, up to its end."""
    store = core.store
    at, end = store.first_offset, store.positions.written
    return (
        store.commit_log.run.read(at, end - at)
        if end - at <= store.commit_log.segment_bytes
        else b"".join(
            store.commit_log.run.read(base, min(store.commit_log.segment_bytes, end - base))
            for base in range(at, end, store.commit_log.segment_bytes)
        )
    )
