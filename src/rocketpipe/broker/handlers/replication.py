"""Answers about a broker's replicas, in the words of RocketMQ's tools and brokers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

import msgspec

from rocketpipe.broker.replication.leading.followers import StillThere
from rocketpipe.broker.replication.role import LeaderPossible
from rocketpipe.broker.replication.status import GroupView, ReplicationStatus
from rocketpipe.clock import Clock, within
from rocketpipe.coordination.coordinator import CoordinatorAway, Fenced, NotInSync
from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.membership import BrokerMembers
from rocketpipe.protocol.requests.replication import (
    ControllerReply,
    Elected,
    ElectMaster,
    ElectMasterReply,
    EpochCache,
    EpochCacheReply,
    EpochSpan,
    ExchangeHaInfo,
    ForgetReplica,
    GetController,
    GetEpochCache,
    GetHaStatus,
    GetSyncState,
    HaClient,
    HaConnection,
    HaInfoReply,
    HaStatus,
    HaStatusReply,
    LeadAnyway,
    LeadAnywayReply,
    ReplicaIdentity,
    Replicas,
    ReplicasByName,
    ResetMasterFlushOffset,
    SyncStateReply,
)
from rocketpipe.remoting.router import Call, handles

#: How long a new leader may take before who asked for it is told that there is none.
ELECT_WITHIN_MS: Final = 10_000
#: The end of the last epoch, as RocketMQ writes it.
NO_END: Final = (1 << 63) - 1
_LOOK_EVERY_MS: Final = 50
_FIXED: Final = "roles are fixed here: set zookeeperAddr to have a leader elected"
_SECOND_MS: Final = 1000


class _Rate:
    """How fast a count grows: since it was asked for last, if that is a second ago or longer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen = (clock.monotonic_ms(), 0)
        self._last = 0

    def of(self, total: int) -> int:
        now_ms, (seen_ms, seen) = self._clock.monotonic_ms(), self._seen
        if now_ms - seen_ms >= _SECOND_MS:
            # It begins anew with another leader.
            grown = total - seen if total >= seen else total
            self._last = grown * _SECOND_MS // (now_ms - seen_ms)
            self._seen = (now_ms, total)
        return self._last


class ReplicationHandlers:
    """Says how the replicas stand, and has another lead."""

    def __init__(
        self, cluster: str, name: str, address: str, group: GroupView, clock: Clock
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._address = address
        self._group = group
        self._clock = clock
        self._rate = _Rate(clock)

    # What every replica answers

    @handles(GetHaStatus)
    async def ha_status(self, request: GetHaStatus, call: Call) -> HaStatusReply:
        return HaStatusReply(status=_ha_status(self._group.status(), self._rate))

    @handles(ExchangeHaInfo)
    async def exchange(self, request: ExchangeHaInfo, call: Call) -> HaInfoReply:
        status = self._group.status()
        if status.leads:
            return HaInfoReply(
                master_ha_address=status.ha_address,
                master_flush_offset=status.durable,
                master_address=self._address,
            )
        if request.master_ha_address or request.master_address:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                "whom this broker follows is decided elsewhere: by haMasterAddress, the "
                "NameServers, or the coordinator",
            )
        leader = status.leader
        return HaInfoReply(
            master_ha_address=leader.ha_address if leader is not None else None,
            master_address=leader.address if leader is not None else None,
        )

    @handles(ResetMasterFlushOffset)
    async def reset_flush_offset(self, request: ResetMasterFlushOffset, call: Call) -> None:
        if not self._group.status().leads:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                "a follower learns from its leader how far the log counts: there is nothing to "
                "reset",
            )

    @handles(GetEpochCache)
    async def epochs(self, request: GetEpochCache, call: Call) -> EpochCacheReply:
        status = self._group.status()
        if status.epochs is None:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, "this broker has no replicas, and so no epochs"
            )
        ends = [*(after for _, (_, after) in pairwise(status.epochs)), NO_END]
        return EpochCacheReply(
            cache=EpochCache(
                cluster=self._cluster,
                broker_name=self._name,
                broker_id=status.id,
                epochs=tuple(
                    EpochSpan(epoch=epoch, start=start, end=end)
                    for (epoch, start), end in zip(status.epochs, ends, strict=False)
                ),
                log_end=status.log_end,
            )
        )

    # What a controller answers elsewhere, and the leader here

    @handles(GetController)
    async def controller(self, request: GetController, call: Call) -> ControllerReply:
        leader = self._group.status().leader
        if leader is None:
            return ControllerReply(group=self._name)
        return ControllerReply(
            group=self._name,
            controller_leader_id=str(leader.id),
            controller_leader_address=leader.address,
            is_leader=leader.address == self._address,
            peers=f"{leader.id}:{leader.address}",
        )

    @handles(GetSyncState)
    async def sync_state(self, request: GetSyncState, call: Call) -> SyncStateReply:
        names = _names(request.names)
        status = self._leading()
        if names and self._name not in names:
            raise RequestRejected(
                ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
                f"there is no controller, and this is the leader of {self._name}: ask that of "
                f"{names[0][:80]}",
            )
        return SyncStateReply(replicas=ReplicasByName(groups={self._name: self._replicas(status)}))

    @handles(ElectMaster)
    async def elect(self, request: ElectMaster, call: Call) -> ElectMasterReply:
        status = self._leading()
        if (request.cluster_name, request.broker_name) != (self._cluster, self._name):
            raise RequestRejected(
                ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
                f"this is the leader of {self._name} in {self._cluster}",
            )
        wanted = request.broker_id if request.broker_id >= 0 else None
        if wanted == status.id:
            raise RequestRejected(
                ResponseCode.CONTROLLER_MASTER_STILL_EXIST, f"replica {wanted} leads already"
            )
        if self._group.resign is None:
            raise RequestRejected(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, _FIXED)
        if wanted is not None and wanted not in status.in_sync:
            known = ", ".join(str(each) for each in sorted(status.in_sync - {status.id})) or "none"
            raise RequestRejected(
                ResponseCode.CONTROLLER_ELECT_MASTER_FAILED,
                f"replica {wanted} is not in sync, and would lose what was acknowledged; in sync "
                f"beside the leader: {known}",
            )
        try:
            await self._group.resign(wanted)
        except (CoordinatorAway, Fenced, NotInSync) as error:
            raise RequestRejected(
                ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, str(error)
            ) from error
        return await self._elected(status.id)

    @handles(LeadAnyway)
    async def lead_anyway(self, request: LeadAnyway, call: Call) -> LeadAnywayReply:
        status = self._group.status()
        if (request.broker_name, request.broker_id) != (self._name, status.id):
            raise RequestRejected(
                ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
                f"this is replica {status.id} of {self._name}",
            )
        if self._group.lead_anyway is None:
            raise RequestRejected(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, _FIXED)
        try:
            lacking = await self._group.lead_anyway(request.do_it)
        except LeaderPossible as error:
            raise RequestRejected(ResponseCode.CONTROLLER_MASTER_STILL_EXIST, str(error)) from error
        except (CoordinatorAway, NotInSync) as error:
            raise RequestRejected(
                ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, str(error)
            ) from error
        return LeadAnywayReply(
            log_end=lacking.log_end,
            last_epoch=lacking.last_epoch,
            in_sync=_listed(lacking.in_sync),
            unclean=_listed(lacking.unclean),
            ahead=_listed(lacking.ahead),
            epoch=lacking.epoch,
        )

    @handles(ForgetReplica)
    async def forget(self, request: ForgetReplica, call: Call) -> None:
        status = self._leading()
        if request.broker_name != self._name:
            raise RequestRejected(
                ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
                f"this is the leader of {self._name}",
            )
        if self._group.forget is None:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "this broker has no replicas")
        try:
            self._group.forget(request.broker_id)
        except StillThere as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
        # It left the set when it ended; of one that ended a moment ago the set hears at once.
        await within(self._clock, ELECT_WITHIN_MS, self._left(request.broker_id, status.id))

    async def _left(self, replica_id: int, leader_id: int) -> None:
        while replica_id in (status := self._group.status()).in_sync and status.id == leader_id:
            await self._clock.sleep(_LOOK_EVERY_MS)

    async def _elected(self, before: int) -> ElectMasterReply:
        end_ms = self._clock.monotonic_ms() + ELECT_WITHIN_MS
        while True:
            status = self._group.status()
            leader = status.leader
            if leader is not None and leader.id != before:
                break
            if self._clock.monotonic_ms() >= end_ms:
                raise RequestRejected(
                    ResponseCode.CONTROLLER_ELECT_MASTER_FAILED,
                    f"nobody else led within {ELECT_WITHIN_MS // 1000} s: look at `rocketpipe "
                    "cluster status`",
                )
            await self._clock.sleep(_LOOK_EVERY_MS)
        return ElectMasterReply(
            master_broker_id=leader.id,
            master_address=leader.address,
            master_epoch=leader.epoch,
            sync_state_set_epoch=status.in_sync_version,
            elected=Elected(
                members=BrokerMembers(
                    cluster=self._cluster,
                    broker_name=self._name,
                    addresses={**status.addresses, leader.id: leader.address},
                ),
                in_sync=tuple(sorted(status.in_sync)),
            ),
        )

    def _leading(self) -> ReplicationStatus:
        status = self._group.status()
        if not status.leads:
            leader = status.leader
            where = f"ask {leader.address}" if leader is not None else "nobody leads now"
            raise RequestRejected(
                ResponseCode.CONTROLLER_NOT_LEADER,
                f"there is no controller, and this replica does not lead: {where}",
            )
        return status

    def _replicas(self, status: ReplicationStatus) -> Replicas:
        known = {**status.addresses, status.id: self._address}
        there = {status.id, *(each.id for each in status.followers)}

        def identity(number: int) -> ReplicaIdentity:
            return ReplicaIdentity(
                broker_name=self._name,
                id=number,
                address=known.get(number, ""),
                alive=number in there,
            )

        return Replicas(
            leader_id=status.id,
            leader=self._address,
            epoch=status.epoch,
            set_epoch=status.in_sync_version,
            in_sync=tuple(identity(each) for each in sorted(status.in_sync)),
            others=tuple(identity(each) for each in sorted(known.keys() - status.in_sync)),
        )


def _ha_status(status: ReplicationStatus, rate: _Rate) -> HaStatus:
    if status.leads:
        return HaStatus(
            leads=True,
            log_end=status.log_end,
            in_sync=sum(each.in_sync for each in status.followers),
            followers=tuple(
                HaConnection(
                    address=each.address,
                    acknowledged=each.end,
                    lag=each.lag,
                    in_sync=each.in_sync,
                    bytes_per_second=each.bytes_per_second,
                    transfer_from=each.transfer_from,
                )
                for each in status.followers
            ),
        )
    following = status.following
    if following is None:
        return HaStatus(following=HaClient(log_end=status.log_end))
    return HaStatus(
        following=HaClient(
            # Tools take a follower with an address for one that is connected.
            master=following.master_ha if following.connected else None,
            bytes_per_second=rate.of(following.bytes),
            log_end=status.log_end,
            last_read_ms=following.last_read_ms,
            last_write_ms=following.last_write_ms,
            master_flush_offset=following.confirmed,
            refused=following.refused,
        )
    )


def _listed(ids: Iterable[int]) -> str:
    return ",".join(str(each) for each in sorted(ids))


def _names(body: bytes) -> list[str]:
    try:
        return msgspec.json.decode(body, type=list[str])
    except msgspec.DecodeError as error:
        raise RequestRejected(
            ResponseCode.INVALID_PARAMETER, "a list of broker names is expected, as JSON"
        ) from error
