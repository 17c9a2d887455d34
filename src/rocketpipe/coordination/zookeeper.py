"""A group whose leader is elected through ZooKeeper.

Every read is behind a ``sync``; every change is one multi-op that names the versions it rests on.
A watch only says that it is time to read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from rocketpipe.clock import Clock
from rocketpipe.coordination.coordinator import (
    CoordinatorAway,
    Fenced,
    GroupState,
    IdTaken,
    Leader,
    Leadership,
    Member,
)
from rocketpipe.coordination.nodes import (
    ROOT,
    EpochNode,
    InSyncNode,
    LeaderNode,
    MemberNode,
    decode,
    encode,
)
from rocketpipe.coordination.zk_session import (
    NodeExistsError,
    NoNodeError,
    ZkSession,
)

#: How often a look at a group is repeated that changed while it was taken.
READS: Final = 5
#: Between two looks at a record that should go with its session.
POLL_MS: Final = 100


class ZkCoordinator:
    """One replica's session with ZooKeeper, and the nodes of its group."""

    def __init__(
        self, hosts: Sequence[str], cluster: str, group: str, *, session_ms: int, clock: Clock
    ) -> None:
        for name in (cluster, group):
            if not name or "/" in name or name in (".", ".."):
                raise ValueError(f"no name for a node of ZooKeeper: {name!r}")
        self._base = f"{ROOT}/{cluster}/{group}"
        self._clock = clock
        self._session = ZkSession(
            hosts, session_ms, clock, back=self._look_again, over=self._session_over
        )
        #: This replica, as it is seen in this session.
        self._joined: Member | None = None
        self._changed: Callable[[GroupState], None] = lambda state: None
        self._lost: Callable[[], None] = lambda: None
        self._reading = False

    async def start(self) -> None:
        """Begin to look for the ensemble; does not wait until it is found."""
        self._session.start()

    async def close(self) -> None:
        await self._session.close()

    def watch(self, changed: Callable[[GroupState], None], lost: Callable[[], None]) -> None:
        self._changed = changed
        self._lost = lost

    async def id_for(self, identity: str) -> int:
        """The next replica id that nobody has; ``identity`` is kept beside it, for people."""
        client = await self._session.reached()

        async def make() -> int:
            await self._session.timed(self._make_nodes(client))
            await self._session.ask(client.ensure_path_async(f"{self._base}/ids"))
            state = await self._read(client)
            while True:
                made = client.create_async(
                    f"{self._base}/ids/id-", identity.encode(), ephemeral=False, sequence=True
                )
                given = int((await self._session.ask(made)).rpartition("-")[2]) + 1
                # One that has forgotten what it gave out counts from the start.
                if given not in state.members.keys() | state.in_sync:
                    return given

        return await self._session.timed(make())

    async def join(self, me: Member) -> GroupState:
        client = await self._session.reached()
        await self._session.timed(self._make_nodes(client))
        self._session.used = True
        await self._be_seen(client, me)
        self._session.id_of(client)
        self._joined = me
        return await self.state()

    async def state(self) -> GroupState:
        return await self._session.timed(self._read(self._session.live()))

    async def campaign(
        self, seen: GroupState, in_sync: frozenset[int], *, anyway: bool = False
    ) -> Leadership:
        client, me = self._session.live(), self._joined
        if me is None:
            raise CoordinatorAway("this replica has not joined in this session")
        seen.check_candidate(me.id, in_sync, anyway=anyway)
        leader = Leader(
            id=me.id, epoch=seen.next_epoch, address=me.address, ha_address=me.ha_address
        )
        return await self._session.timed(self._campaign(client, seen, leader, in_sync))

    async def change_in_sync(
        self, lead: Leadership, seen: GroupState, in_sync: frozenset[int]
    ) -> GroupState:
        change = self._session.live().transaction()
        change.check(f"{self._base}/epoch", lead.state.epoch_version)
        node = InSyncNode(sorted(in_sync), lead.leader.epoch)
        change.set_data(f"{self._base}/isr", encode(node), version=seen.in_sync_version)
        _, stat = await self._session.timed(self._session.commit(change))
        return replace(seen, in_sync=in_sync, in_sync_version=stat.version)

    async def resign(self, lead: Leadership, to: int | None = None) -> None:
        change = self._session.live().transaction()
        node = EpochNode(lead.leader.epoch, lead.leader.id, to)
        change.set_data(f"{self._base}/epoch", encode(node), version=lead.state.epoch_version)
        change.delete(f"{self._base}/leader")
        await self._session.timed(self._session.commit(change))

    # --- nodes -----------------------------------------------------------------------------------

    async def _make_nodes(self, client: Any) -> None:
        await self._session.ask(client.ensure_path_async(f"{self._base}/replicas"))
        for name, node in (("epoch", EpochNode()), ("isr", InSyncNode())):
            with suppress(NodeExistsError):
                await self._session.ask(client.create_async(f"{self._base}/{name}", encode(node)))

    async def _be_seen(self, client: Any, me: Member) -> None:
        path, data = f"{self._base}/replicas/{me.id}", encode(MemberNode.of(me))
        # A session of a process that died is there until ZooKeeper gives it up: two of its times.
        until_ms = self._clock.monotonic_ms() + 2 * self._session.session_ms
        while True:
            other = await self._session.timed(self._try_to_be_seen(client, path, data))
            if other is None:
                return
            if self._clock.monotonic_ms() >= until_ms:
                raise IdTaken(me.id, other)
            await self._clock.sleep(POLL_MS)

    async def _try_to_be_seen(self, client: Any, path: str, data: bytes) -> str | None:
        """Write this replica's record; gives the address of another who has that place."""
        try:
            await self._session.ask(client.create_async(path, data, ephemeral=True))
            return None
        except NodeExistsError:
            pass
        try:
            there, stat = await self._session.ask(client.get_async(path))
            if stat.ephemeralOwner == self._session.id_of(client):
                await self._session.ask(client.set_async(path, data))
                return None
            other = decode(path, there, MemberNode).address
            if other != decode(path, data, MemberNode).address:
                return other
            # Whoever listens there now is this process: that was a life before this one.
            change = client.transaction()
            change.delete(path, version=stat.version)
            change.create(path, data, ephemeral=True)
            await self._session.commit(change)
            return None
        except (NoNodeError, Fenced):
            return "somebody, a moment ago"

    async def _campaign(
        self, client: Any, seen: GroupState, leader: Leader, in_sync: frozenset[int]
    ) -> Leadership:
        base = self._base
        change = client.transaction()
        epoch, isr = EpochNode(leader.epoch, leader.id), InSyncNode(sorted(in_sync), leader.epoch)
        change.set_data(f"{base}/epoch", encode(epoch), version=seen.epoch_version)
        change.set_data(f"{base}/isr", encode(isr), version=seen.in_sync_version)
        if seen.leader is not None:
            there = await self._session.ask(client.exists_async(f"{base}/leader"))
            mine = there is None or there.ephemeralOwner == self._session.id_of(client)
            if not mine and not leader.is_again(seen.leader):
                raise Fenced(f"replica {seen.leader.id} leads")
            change.delete(f"{base}/leader")
        change.create(f"{base}/leader", encode(LeaderNode.of(leader)), ephemeral=True)
        results = await self._session.commit(change)
        state = replace(
            seen,
            epoch=leader.epoch,
            leader=leader,
            in_sync=in_sync,
            successor=None,
            epoch_version=results[0].version,
            in_sync_version=results[1].version,
        )
        return Leadership(leader=leader, state=state)

    async def _read(self, client: Any) -> GroupState:
        base = self._base
        for _ in range(READS):
            await self._session.ask(client.sync_async(base))
            watch = self._watched
            there = client.exists_async(f"{base}/leader", watch=watch)
            # Sent one behind the other, and answered in that order.
            asked = (
                client.get_async(f"{base}/epoch", watch=watch),
                client.get_async(f"{base}/isr", watch=watch),
                client.get_children_async(f"{base}/replicas", watch=watch),
            )
            led = client.get_async(f"{base}/leader")
            await self._session.ask(there)
            try:
                (epoch_data, epoch_stat), (isr_data, isr_stat), names = [
                    await self._session.ask(each) for each in asked
                ]
            except NoNodeError:
                return GroupState()  # somebody has removed the group: who joins again makes it
            leader = None
            with suppress(NoNodeError):
                data, _ = await self._session.ask(led)
                leader = decode(f"{base}/leader", data, LeaderNode).leader()
            epoch = decode(f"{base}/epoch", epoch_data, EpochNode)
            if leader is not None and leader.epoch != epoch.epoch:
                continue  # an election came in between
            return GroupState(
                epoch=epoch.epoch,
                leader=leader,
                in_sync=frozenset(decode(f"{base}/isr", isr_data, InSyncNode).members),
                members=await self._members(client, names),
                successor=epoch.successor,
                epoch_version=epoch_stat.version,
                in_sync_version=isr_stat.version,
            )
        raise CoordinatorAway(f"{base} changes faster than it can be read")

    async def _members(self, client: Any, names: Sequence[str]) -> dict[int, Member]:
        members = {}
        asked = [(name, client.get_async(f"{self._base}/replicas/{name}")) for name in names]
        for name, each in asked:
            with suppress(NoNodeError):
                data, _ = await self._session.ask(each)
                if name.isdecimal():
                    members[int(name)] = decode(name, data, MemberNode).member(int(name))
        return members

    # --- watching --------------------------------------------------------------------------------

    def _session_over(self) -> None:
        self._joined = None
        self._lost()

    def _watched(self, event: object) -> None:
        """On kazoo's thread; a watch tells once, and the next read sets it anew."""
        self._session.hand_over(self._look_again)

    def _look_again(self) -> None:
        if self._joined is not None and not self._reading:
            self._reading = True
            self._session.spawn(self._look())

    async def _look(self) -> None:
        await asyncio.sleep(0)  # several nodes change at once
        self._reading = False
        with suppress(CoordinatorAway):  # whoever keeps a role looks again anyway
            self._changed(await self.state())
