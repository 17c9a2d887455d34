"""One run of a replica: a store that is open, the core on it, and the role of the moment.

A role is taken down and another built while the run goes on. What changes the log from outside, as
a cut does, ends the run; another one begins with the store that is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Self

from rocketpipe.background import running
from rocketpipe.broker.core import Core, Loop
from rocketpipe.broker.replication.epochs import EpochTable
from rocketpipe.broker.replication.following.kept_log import KeptLog
from rocketpipe.broker.replication.joined import JOINED_FILE, JoinedEpoch
from rocketpipe.broker.replication.tables.sealed_users import SealedUsers
from rocketpipe.broker.replication.tables.table_log import TableLog
from rocketpipe.broker.roles.duties import Role
from rocketpipe.broker.roles.switchboard import Switchboard
from rocketpipe.broker.tables.tables import Tables
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import FlushMode
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.upkeep.backup import LOST


class Run:
    """The store, the core and the tables of one run, and what is built on them."""

    def __init__(
        self, core: Core, epochs: EpochTable, joined: JoinedEpoch, board: Switchboard, boot: str
    ) -> None:
        """``boot`` is what `boot_id` gives on this machine."""
        self.core = core
        self.epochs = epochs
        self.joined = joined
        self._board = board
        self._role: AsyncExitStack | None = None
        self._boot = boot
        #: Whether what was acknowledged is surely in its log.
        self.is_clean = _is_clean(core.store, joined, boot)
        #: What of the log is kept for its leader's sake, except while it leads.
        self.kept_log = KeptLog(core.store, core.pins)
        self.table_log = TableLog(
            core.store,
            core.tables,
            core.owners,
            core.clock,
            joined,
            self._append,
            acknowledged=lambda end: core.visibility.settled(end, wait=True),
            pins=core.pins,
            keep_from=self.kept_log.keep_from,
            host=core.store_host,
            users=_sealed_users(core),
        )

    def _append(self, puts: Sequence[Put]) -> LogOffset:
        """Store records of the broker's own as one group, before it takes anything from others."""
        ((*_, last),) = self.core.store.append([puts])
        return last.end

    @classmethod
    @asynccontextmanager
    async def opened(
        cls,
        open_store: Callable[[], MessageStore],
        build_core: Callable[[MessageStore], Core],
        board: Switchboard,
        boot: str,
    ) -> AsyncIterator[Self]:
        """Have a store open inside the block; its tables are saved, and it is closed, at its end.

        Raises:
            StoreError: The directory cannot be used.
        """
        async with AsyncExitStack() as stack:
            # Beside the loop: the session with a coordinator has to go on.
            store = stack.enter_context(closing(await asyncio.to_thread(open_store)))
            core = build_core(store)
            layout = StoreLayout(core.config.data)
            epochs = EpochTable(core.disk, layout.epochs)
            epochs.load()
            epochs.drop_before(store.first_offset)
            # What a cut, or a crash of the machine, has taken from the log.
            epochs.cut(store.positions.written)
            group = f"{core.config.cluster}#{core.config.name}"
            joined = JoinedEpoch(core.disk, layout.config / JOINED_FILE, group)
            joined.load()
            await stack.enter_async_context(saved(core.tables, core.config.save_offsets_every_ms))
            run = cls(core, epochs, joined, board, boot)
            await stack.enter_async_context(
                running(core.registrar.keep_registered(), "registration")
            )
            try:
                yield run
            finally:
                await run.leave("it is closing its store")

    def became_clean(self) -> None:
        """All that was acknowledged is here again: the next run may count on it.

        Raises:
            DiskError: That could not be saved.
        """
        self.joined.save(boot_id=self._boot)
        self.is_clean = True

    @property
    def serves(self) -> bool:
        """Whether it has a role."""
        return self._role is not None

    async def enter(
        self, block: AbstractContextManager[Role], loops: Callable[[Role], Mapping[str, Loop]]
    ) -> None:
        """Build a role, start what runs beside it, and have peers answered by it.

        Raises:
            StoreError: What the log has for it cannot be read.
        """
        assert self._role is None
        async with AsyncExitStack() as stack:
            role = stack.enter_context(block)
            for name, loop in loops(role).items():
                await stack.enter_async_context(running(loop(), name))
            self._role = stack.pop_all()
        self._board.connect(role, self.core.waiting)

    async def leave(self, reason: str) -> None:
        """Take the role down, if there is one; peers are told the reason until the next."""
        await self._board.disconnect(reason)
        role, self._role = self._role, None
        if role is not None:
            await role.aclose()


@asynccontextmanager
async def saved(tables: Tables, every_ms: int) -> AsyncIterator[None]:
    """Tables are saved inside the block again and again, and once more at its end."""
    try:
        async with running(tables.keep_saved(every_ms), "tables"):
            yield
    finally:
        tables.save()


def _sealed_users(core: Core) -> SealedUsers | None:
    inner = core.config.inner_client() if core.gate is not None else None
    return None if core.gate is None or inner is None else SealedUsers(core.gate, inner)


def _is_clean(store: MessageStore, joined: JoinedEpoch, now: str) -> bool:
    """Whether nothing that was acknowledged can be missing.

    A killed process loses nothing that was written. A machine that crashed does, and a store that
    has failed: unless the log was synced before anything was acknowledged. What was lost stays so
    until a leader has sent it again, however often the replica is started meanwhile.
    """
    before = joined.boot_id
    synced = store.config.flush is FlushMode.SYNC
    kept = store.ended_well or (before == now and not store.had_failed) or synced
    clean = kept and before != LOST
    joined.save(boot_id=now if clean else LOST)
    return clean


def mark_lost(disk: Disk, root: Path) -> None:
    """Have the runs to come know that something may be missing, until a leader has sent it again.

    Raises:
        SnapshotDamaged: What is remembered of the group cannot be read.
        DiskError: It cannot be saved.
    """
    joined = JoinedEpoch(disk, StoreLayout(root).config / JOINED_FILE)
    joined.load()
    joined.save(boot_id=LOST)


def boot_id() -> str:
    """What is another text after each start of the machine; empty where nobody tells."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
