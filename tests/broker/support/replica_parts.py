"""One replica whose role a test decides, on its own ports, and what peers hear of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from tests.broker.support.asking import message
from tests.broker.support.core_parts import HOST
from tests.broker.support.leader_parts import Told, elected
from tests.broker.support.sending_parts import put
from tests.waiting import until

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.core import Core
from rocketpipe.broker.roles.replica import Replica
from rocketpipe.broker.roles.replicated import replicated
from rocketpipe.broker.roles.run import Run, boot_id
from rocketpipe.broker.roles.switchboard import Switchboard
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.coordination.coordinator import Coordinator, GroupState, Leader, Leadership, Member
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.request import Request
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.server import Server
from rocketpipe.store.config import FlushMode, StoreConfig
from rocketpipe.store.files.disk import Disk

ReplyT = TypeVar("ReplyT")


class Undecided:
    """A coordinator that nobody has reached yet."""

    async def join(self, me: Member) -> GroupState:
        await asyncio.Event().wait()
        raise AssertionError

    def watch(self, changed: Callable[[GroupState], None], lost: Callable[[], None]) -> None:
        """Nothing ever changes."""


class Parts:
    """A replica, its board and whoever asks it."""

    def __init__(self, replica: Replica, board: Switchboard, caller: Caller) -> None:
        self.replica = replica
        self.board = board
        self.caller = caller
        self.told = Told()
        replica.change_in_sync = self.told
        replica.knows = None
        replica.candidates = lambda: range(10)

    @property
    def run(self) -> Run:
        return self.replica.run

    @property
    def core(self) -> Core:
        return self.replica.run.core

    @property
    def end(self) -> int:
        return self.core.store.positions.written

    def leadership(self, epoch: int = 1, *in_sync: int) -> Leadership:
        """What it has once it was elected, with others in sync beside it."""
        mine = self.replica
        leader = Leader(id=mine.me, epoch=epoch, address=mine.address, ha_address=mine.ha_address)
        everybody = frozenset({mine.me, *in_sync})
        return Leadership(
            leader=leader, state=GroupState(epoch=epoch, leader=leader, in_sync=everybody)
        )

    async def lead(self, epoch: int = 1, *in_sync: int) -> Leader:
        lead = self.leadership(epoch, *in_sync)
        await self.replica.lead(lead)
        return lead.leader

    async def caught_up(self, leader: Parts) -> None:
        """Wait until it has all that its leader has."""
        await until(lambda: self.replica.is_connected and self.end == leader.end)

    async def ask(self, request: Request[ReplyT]) -> ReplyT:
        return await self.caller.call(self.replica.address, request, 5000)

    def append(self, count: int = 1) -> int:
        """Store messages without waiting for anybody; gives the log's end behind them."""
        self.core.store.append([[put()] for _ in range(count)])
        return self.end

    async def send(self, body: bytes = b"body") -> Any:
        """Send to a topic that is there once it has led."""
        return await self.ask(message("t", body))


@asynccontextmanager
async def replica_parts(
    root: Path,
    me: int = 1,
    *,
    clock: Clock | None = None,
    disk: Disk | None = None,
    segment_bytes: int = 1 << 20,
    flush: FlushMode = FlushMode.ASYNC,
    boot_id: Callable[[], str] = boot_id,
    **settings: Any,
) -> AsyncIterator[Parts]:
    """Have a replica of an elected group inside the block that follows nobody yet."""
    clock = clock or SystemClock()
    replication = elected(**{"min_in_sync": 1, "max_lag_ms": 10**6, **settings})
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(Server.bound("127.0.0.1", 0))
        caller = await stack.enter_async_context(Caller())
        boards: list[Switchboard] = []

        @asynccontextmanager
        async def listening(board: Switchboard) -> AsyncIterator[None]:
            boards.append(board)
            async with server.serving(
                board.answer, board.forget_peer, lane=board, on_close=board.finish
            ):
                yield

        def watch(core: Core) -> None:
            core.tables.topics.update(TopicSettings(name="t", read_queues=1, write_queues=1), 1)

        config = BrokerConfig(
            data=root,
            broker_id=me,
            port=0,
            store=replace(StoreConfig.embedded(root), segment_bytes=segment_bytes, flush=flush),
            replication=replication,
        )
        replica = await stack.enter_async_context(
            replicated(
                config,
                replication,
                address=server.address,
                store_host=HOST,
                clock=clock,
                chance=random.Random(1),
                disk=disk or Disk(),
                caller=caller,
                listening=listening,
                watch=watch,
                coordinator=cast("Coordinator", Undecided()),
                boot_id=boot_id,
            )
        )
        yield Parts(replica, boards[0], caller)
