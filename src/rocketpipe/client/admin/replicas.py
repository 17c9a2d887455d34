"""The copies of each broker's log: who leads, who follows, and how far they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeVar

import msgspec

from rocketpipe.client.admin.fleet import Fleet, NoBroker, each
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.route import LEADER_ID
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.replication import (
    ElectMaster,
    EpochCache,
    ForgetReplica,
    GetEpochCache,
    GetHaStatus,
    GetSyncState,
    HaStatus,
    LeadAnyway,
    ReplicaIdentity,
    Replicas,
)

ReplyT = TypeVar("ReplyT")

#: A leader answers when another leads, which takes seconds.
_ELECT_TIMEOUT_MS: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaInfo:
    """One copy of a broker's log; what could not be found out is None."""

    cluster: str
    broker: str
    #: As it is registered: 0 leads.
    id: int
    address: str
    #: What it says itself.
    role: Literal["leader", "follower"] | None = None
    epoch: int | None = None
    log_end: int | None = None
    #: Bytes that it is behind its leader; below 0 if it follows nobody, and has more.
    lag: int | None = None
    in_sync: bool | None = None
    #: Where the leader listens that it follows; None if it follows nobody.
    follows: str | None = None
    #: Why it follows nobody, as it says itself.
    refused: str | None = None
    #: Why nothing is known of it.
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Elected:
    """Who leads now, in which epoch."""

    broker: str
    id: int | None
    address: str | None
    epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """What a replica has that is to lead whatever it lacks, and who may have had more."""

    id: int
    log_end: int
    #: Which wrote the log's end; a newer one may have been joined.
    last_epoch: int
    #: Who was in sync, who of them is there though its machine crashed, and who has more.
    in_sync: tuple[int, ...]
    unclean: tuple[int, ...]
    ahead: tuple[int, ...]
    #: In which epoch it leads now; None if it does not.
    epoch: int | None

    @property
    def loss(self) -> str:
        """What may be lost if it leads, in a sentence."""
        has = f"replica {self.id} has the log up to {self.log_end}, of epoch {self.last_epoch}"
        others = [each for each in self.in_sync if each != self.id]
        text = f"{has}: whatever was acknowledged behind that is lost for good"
        if self.id not in self.in_sync:
            text += f"; it was not in sync, as {_listed(others)} were"
        elif others:
            text += f"; in sync with it were {_listed(others)}, of which nobody is clean and here"
        if self.ahead:
            text += f"; more of the log has {_listed(self.ahead)}: that one lacks less"
        return text


class ReplicaAdmin:
    """Shows how the copies of a log stand, and has another lead."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def all(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> list[ReplicaInfo]:
        """Every registered copy, its leader first; one that does not answer is listed as such.

        Raises:
            NoBroker: If there is no such cluster or broker.
            ConnectionLost: If no NameServer answers.
        """
        found = await self._fleet.brokers(cluster=cluster, broker=broker)
        rows: list[ReplicaInfo] = []
        for name, known in found.items():
            rows += await self.of_group(known.cluster, name, known.addresses)
        return rows

    async def of_group(
        self, cluster: str, broker: str, addresses: Mapping[int, str]
    ) -> list[ReplicaInfo]:
        """The copies at these addresses, by their ids."""
        asked = await each(
            sorted(addresses), lambda number: self._one(cluster, broker, number, addresses[number])
        )
        leader = asked.get(LEADER_ID)
        if leader is None or leader.log_end is None:
            return list(asked.values())
        state = await self._attempt(leader.address, _sync_state(broker))
        members = state.replicas.groups.get(broker) if state is not None else None
        in_sync = {one.id for one in members.in_sync} if members is not None else None
        return [_compared(one, leader.log_end, in_sync) for one in asked.values()]

    async def ha_status(self, address: str) -> HaStatus:
        """What one broker says of its followers, or of how it follows.

        Raises:
            RequestRejected: If it is too old to say.
            ConnectionLost: If it is out of reach.
        """
        return (await self._fleet.call(address, GetHaStatus())).status

    async def epochs(self, address: str) -> EpochCache:
        """Which leader wrote which part of one broker's log.

        Raises:
            RequestRejected: If it has no epochs.
            ConnectionLost: If it is out of reach.
        """
        return (await self._fleet.call(address, GetEpochCache())).cache

    async def in_sync(self, broker: str) -> Replicas:
        """Who is in sync with the leader of a broker, which is asked: there is no controller.

        Raises:
            NoBroker: If there is no such broker, or it has no leader.
            RequestRejected: If it does not lead, or does not know.
        """
        leaders = await self._fleet.leaders(broker=broker)
        reply = await self._fleet.call(leaders[broker], _sync_state(broker))
        found = reply.replicas.groups.get(broker)
        if found is None:
            raise NoBroker(f"{broker!r} is not known to its leader", "is it RocketMQ's own?")
        # Where roles are fixed, a leader does not know where clients reach its followers.
        known = (await self._fleet.brokers(broker=broker))[broker].addresses
        return msgspec.structs.replace(
            found, in_sync=_located(found.in_sync, known), others=_located(found.others, known)
        )

    async def elect(self, broker: str, replica_id: int | None = None) -> Elected:
        """Have another replica lead: the one of that id, or any that is in sync.

        The leader is asked, which hands over in order: nothing is lost, and nothing refused that
        can wait.

        Raises:
            NoBroker: If there is no such broker, or it has no leader.
            RequestRejected: If roles are fixed, or that replica is not in sync.
        """
        known = (await self._fleet.brokers(broker=broker))[broker]
        leaders = await self._fleet.leaders(broker=broker)
        request = ElectMaster(
            cluster_name=known.cluster,
            broker_name=broker,
            broker_id=-1 if replica_id is None else replica_id,
            designate_elect=replica_id is not None,
            invoke_time=self._fleet.session.clock.now_ms(),
        )
        reply = await self._fleet.session.caller.call(leaders[broker], request, _ELECT_TIMEOUT_MS)
        return Elected(
            broker=broker,
            id=reply.master_broker_id,
            address=reply.master_address,
            epoch=reply.master_epoch,
        )

    async def lead_anyway(self, broker: str, replica_id: int, *, do_it: bool) -> Lacking:
        """Have a replica lead although messages that were acknowledged may be missing there.

        Without ``do_it`` only what may be lost is found out.

        Raises:
            NoBroker: If there is no such broker, or no such replica of it.
            RequestRejected: If another one leads, or may without any loss, or roles are fixed.
        """
        known = (await self._fleet.brokers(broker=broker))[broker]
        address = known.addresses.get(replica_id)
        if address is None:
            ids = _listed(sorted(known.addresses.keys() - {LEADER_ID})) or "none"
            hint = f"registered are {ids}"
            if known.leader is not None:
                hint += f", and a leader, at {known.leader}"
            raise NoBroker(f"no replica {replica_id} of {broker!r}", hint)
        request = LeadAnyway(broker_name=broker, broker_id=replica_id, do_it=do_it)
        reply = await self._fleet.session.caller.call(address, request, _ELECT_TIMEOUT_MS)
        return Lacking(
            id=replica_id,
            log_end=reply.log_end,
            last_epoch=reply.last_epoch,
            in_sync=_ids(reply.in_sync),
            unclean=_ids(reply.unclean),
            ahead=_ids(reply.ahead),
            epoch=reply.epoch,
        )

    async def forget(self, broker: str, replica_id: int) -> None:
        """Have the leader of a broker keep nothing any more for a replica that is gone for good.

        Raises:
            NoBroker: If there is no such broker, or it has no leader.
            RequestRejected: If that replica is there.
        """
        leaders = await self._fleet.leaders(broker=broker)
        request = ForgetReplica(broker_name=broker, broker_id=replica_id)
        await self._fleet.session.caller.call(leaders[broker], request, _ELECT_TIMEOUT_MS)

    async def _one(self, cluster: str, broker: str, number: int, address: str) -> ReplicaInfo:
        row = ReplicaInfo(cluster=cluster, broker=broker, id=number, address=address)
        try:
            status = await self.ha_status(address)
        except RocketPipeError as error:
            return replace(row, problem=str(error))
        cache = await self._attempt(address, GetEpochCache())
        epochs = cache.cache.epochs if cache is not None else ()
        return replace(
            row,
            role="leader" if status.leads else "follower",
            epoch=epochs[-1].epoch if epochs else None,
            log_end=status.log_end if status.leads else status.following.log_end,
            follows=None if status.leads else status.following.master,
            refused=None if status.leads else status.following.refused,
        )

    async def _attempt(self, address: str, request: Request[ReplyT]) -> ReplyT | None:
        try:
            return await self._fleet.call(address, request)
        except RocketPipeError:
            return None


def behind(end: int | None, leader_end: int | None, *, follows: bool) -> int | None:
    """How many bytes a follower is behind; below 0 if it has more, and follows nobody.

    They are asked one after the other, so that one that follows may seem to have more.
    """
    if end is None or leader_end is None:
        return None
    return max(0, leader_end - end) if follows else leader_end - end


def _located(
    replicas: Iterable[ReplicaIdentity], known: Mapping[int, str]
) -> tuple[ReplicaIdentity, ...]:
    return tuple(
        one if one.address else msgspec.structs.replace(one, address=known.get(one.id, ""))
        for one in replicas
    )


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(str(each) for each in ids)


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(",") if each.isascii() and each.isdigit())


def _sync_state(broker: str) -> GetSyncState:
    return GetSyncState(names=msgspec.json.encode([broker]))


def _compared(one: ReplicaInfo, leader_end: int, in_sync: set[int] | None) -> ReplicaInfo:
    """Add what only the leader knows."""
    if one.id == LEADER_ID:
        return replace(one, in_sync=True, lag=0)
    return replace(
        one,
        lag=behind(one.log_end, leader_end, follows=one.follows is not None),
        in_sync=None if in_sync is None else one.id in in_sync,
    )
