"""Brokers of one name in this process whose leader a coordinator in memory elects."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.broker.support.replica_group import ReplicaGroup, Running
from tests.waiting import until

from rocketpipe.background import running
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.replication import ReplicationConfig
from rocketpipe.broker.core import Core
from rocketpipe.broker.replication.joined import JOINED_FILE, JoinedEpoch
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.model.offsets import LogOffset
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.upkeep.cutting import cut
from rocketpipe.testing.coordinator import SimCoordinator, SimEnsemble

#: Never looked at: the coordinator is in memory.
NOWHERE = ("127.0.0.1:1",)


class ElectedGroup(ReplicaGroup):
    """Replicas by their id."""

    def __init__(
        self, root: Path, name_server: str, stack: AsyncExitStack, ensemble: SimEnsemble
    ) -> None:
        super().__init__(root, name_server, stack)
        self.ensemble = ensemble
        self.replicas: dict[int, Running] = {}
        self.coordinators: dict[int, SimCoordinator] = {}
        #: And those of each replica's store.
        self.store_settings: dict[str, Any] = {}

    async def three(self, **settings: Any) -> int:
        """Start three replicas with these settings of brokers, all in sync; gives who leads."""
        self.settings = settings
        for number in (1, 2, 3):
            await self.replica(number)
        await self.in_sync(1, 2, 3)
        return await self.leader()

    async def replica(
        self,
        number: int,
        directory: str | None = None,
        *,
        segment_bytes: int | None = None,
        disk: Disk | None = None,
        clock: Clock | None = None,
        **settings: object,
    ) -> Running:
        """Start a replica; its data stays when it is stopped. One elsewhere is not counted."""
        settings.setdefault("max_lag_ms", 500)
        replication = ReplicationConfig(zookeepers=NOWHERE, **settings)  # type: ignore[arg-type]
        config = self.config(
            directory or f"replica-{number}",
            None,
            broker_id=number,
            segment_bytes=segment_bytes,
        )
        assert config.store is not None
        store = replace(config.store, **self.store_settings)
        config = replace(config, replication=replication, store=store, **self.settings)
        cores: list[Core] = []
        stack = AsyncExitStack()
        coordinator = self.ensemble.coordinator()
        stack.push_async_callback(coordinator.close)
        address = await stack.enter_async_context(
            broker(config, watch=cores.append, coordinator=coordinator, disk=disk, clock=clock)
        )
        self._stack.push_async_callback(stack.aclose)
        started = Running(address, cores, stack)
        if directory is None:
            self.replicas[number] = started
            self.coordinators[number] = coordinator
        return started

    async def stop(self, number: int) -> None:
        await self.replicas.pop(number).stop()

    async def lose(self, number: int) -> int:
        """Have another lead at once, of which this one hears when its session is over by its clock.

        Gives who leads then; the other one follows it in the end.
        """
        coordinator = self.coordinators[number]
        coordinator.cut()
        session = coordinator._session
        assert session is not None, "it has joined"
        self.ensemble.end_session(session)
        await until(lambda: self.leading() not in (None, number))
        await until(lambda: not self.replicas[number].core.group.status().leads)
        coordinator.heal()
        return await self.leader()

    async def crash(self, number: int, keeps: LogOffset | None = None) -> None:
        """Stop a replica, and leave its data as one that was running when its machine went down.

        Of its log it ``keeps`` what lies before an offset.
        """
        config = self.replicas[number].core.store.config
        await self.stop(number)
        if keeps is not None:
            cut(config, Disk(), SystemClock(), keeps)
        layout = StoreLayout(config.root)
        layout.abort.write_bytes(b"1")
        joined = JoinedEpoch(Disk(), layout.config / JOINED_FILE)
        joined.load()
        joined.save(boot_id="an earlier start of the machine")

    def leading(self) -> int | None:
        """The id of the replica that leads."""
        leading = [
            (each.core.group.status().epoch, number)
            for number, each in self.replicas.items()
            if each.core.group.status().leads and each.core.standing.refusal is None
        ]
        return max(leading)[1] if leading else None

    async def leader(self) -> int:
        """Wait for a leader, and give its id."""
        await until(lambda: self.leading() is not None)
        found = self.leading()
        assert found is not None
        return found

    async def in_sync(self, *numbers: int) -> None:
        """Wait until just these are in sync."""
        await until(lambda: self.ensemble.state().in_sync == frozenset(numbers))


@asynccontextmanager
async def elected_group(root: Path) -> AsyncIterator[ElectedGroup]:
    """Have a NameServer and a coordinator inside the block."""
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(name_server(NamesrvConfig(port=0)))
        ensemble = SimEnsemble(SystemClock(), random.Random(1), session_ms=1000)
        await stack.enter_async_context(running(ensemble.run(), "ensemble"))
        yield ElectedGroup(root, address, stack, ensemble)
