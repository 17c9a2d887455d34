"""The leader's side of replication on a real store and a real port, with a clock to turn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.broker.support.sending_parts import HOST, put
from tests.waiting import until

from rocketpipe.background import running
from rocketpipe.broker.config.replication import BrokerRole, ReplicationConfig
from rocketpipe.broker.replication.epochs import EpochTable
from rocketpipe.broker.replication.leading.followers import Followers
from rocketpipe.broker.replication.leading.ha_port import HaPort, ha_port
from rocketpipe.clock import Clock
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.upkeep.retention import Pins
from rocketpipe.testing.clock import ManualClock

SEGMENT_BYTES = 1 << 20
ME = 1


def fixed(**settings: Any) -> ReplicationConfig:
    """A master by setting whose sends wait for its slaves."""
    return ReplicationConfig(**{"role": BrokerRole.SYNC_MASTER, **settings})


def elected(**settings: Any) -> ReplicationConfig:
    """A leader that a coordinator has elected."""
    return ReplicationConfig(zookeepers=("127.0.0.1:2181",), **settings)


class Told:
    """A coordinator's in-sync set as far as a leader changes it; ``holds`` keeps an answer back."""

    def __init__(self) -> None:
        self.asked: list[frozenset[int]] = []
        self.before: Callable[[], Awaitable[None]] | None = None

    async def __call__(self, in_sync: frozenset[int]) -> None:
        self.asked.append(in_sync)
        if self.before is not None:
            await self.before()


class LeaderParts:
    """A store that leads, and its port."""

    def __init__(
        self,
        root: Path,
        port: HaPort,
        config: ReplicationConfig,
        clock: Clock,
        *,
        in_sync: Collection[int] = (),
        members: Collection[int] | None = None,
        store: dict[str, Any] | None = None,
    ) -> None:
        self.clock = clock
        self.config = config
        self.store = MessageStore.open(
            StoreConfig.embedded(root, **{"segment_bytes": SEGMENT_BYTES, **(store or {})}),
            disk=Disk(),
            clock=clock,
            store_host=HOST,
            threads=False,
        )
        self.epochs = EpochTable(Disk(), root / "epochFileCheckpoint")
        self.epochs.append(1, 0)
        self.pins = Pins()
        self.told = Told()
        self._in_sync = in_sync
        self.members = members
        self.address = port.address
        self.followers = self.lead(1)
        port.serve(lambda: self.followers)

    def lead(self, epoch: int) -> Followers:
        """Begin a leadership."""
        self.followers = Followers(
            self.store,
            self.epochs,
            self.clock,
            self.config,
            me=ME,
            epoch=epoch,
            in_sync=frozenset(self._in_sync) if self.config.elected else None,
            change_in_sync=self.told if self.config.elected else None,
            moved=self.store.dispatch,
            hold=self.pins.hold,
            knows=None if self.members is None else lambda id_: id_ in (self.members or ()),
        )
        return self.followers

    @property
    def end(self) -> int:
        return self.store.positions.written

    @property
    def acknowledged(self) -> int | None:
        return self.store.positions.acknowledged

    def append(self, count: int = 1, body: bytes = b"x" * 100) -> LogOffset:
        """Store messages; gives the log's end behind them."""
        self.store.append([[put(body=body)] for _ in range(count)])
        return self.store.positions.written

    async def reached(self, end: int) -> None:
        """Wait until everything before that is acknowledged."""
        await until(lambda: self.acknowledged == end)

    def end_of(self, number: int) -> int:
        """What a follower has reported; −1 if it has not, or is not here."""
        return next((each.end for each in self.followers.status() if each.id == number), -1)

    async def heard(self, count: int) -> None:
        """Wait until so many followers have reported."""
        await until(lambda: len(self.followers.status()) == count)


@asynccontextmanager
async def leading(
    root: Path, config: ReplicationConfig, clock: Clock | None = None, **given: Any
) -> AsyncIterator[LeaderParts]:
    async with ha_port("127.0.0.1", 0) as port:
        parts = LeaderParts(root, port, config, clock or ManualClock(), **given)
        try:
            async with running(parts.followers.keep_current(), "in-sync set"):
                yield parts
        finally:
            parts.followers.fail(14, "over")
            await parts.followers.finish()
            parts.store.abandon()
