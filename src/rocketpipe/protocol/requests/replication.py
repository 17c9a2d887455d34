"""Requests about the copies of one broker: who leads them, how far they are, what they copy.

Three are a controller's in RocketMQ. Here there is none, and the leader of a group answers them for
its own group. The last two are ours alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rocketpipe.model.body import Body, Int32, Int64
from rocketpipe.model.topic import DataVersion
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.fields import I32, json_body, raw_body
from rocketpipe.protocol.request import Request, request
from rocketpipe.protocol.requests.membership import BrokerMembers


@dataclass(frozen=True, slots=True, kw_only=True)
class HaInfoReply:
    """Who leads, and where it takes followers."""

    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


@request(RequestCode.EXCHANGE_BROKER_HA_INFO)
@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeHaInfo(Request[HaInfoReply]):
    """Ask a leader where it takes followers, or tell a follower whom to follow."""

    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


class HaConnection(Body, frozen=True, kw_only=True):
    """One follower, as its leader sees it."""

    address: str | None = msgspec.field(name="addr", default=None)
    acknowledged: Int64 = msgspec.field(name="slaveAckOffset", default=0)
    #: How many bytes it is behind.
    lag: Int64 = msgspec.field(name="diff", default=0)
    in_sync: bool = False
    bytes_per_second: Int64 = msgspec.field(name="transferredByteInSecond", default=0)
    transfer_from: Int64 = msgspec.field(name="transferFromWhere", default=0)


class HaClient(Body, frozen=True, kw_only=True):
    """How a follower follows."""

    master: str | None = msgspec.field(name="masterAddr", default=None)
    bytes_per_second: Int64 = msgspec.field(name="transferredByteInSecond", default=0)
    #: Where its own log ends.
    log_end: Int64 = msgspec.field(name="maxOffset", default=0)
    last_read_ms: Int64 = msgspec.field(name="lastReadTimestamp", default=0)
    last_write_ms: Int64 = msgspec.field(name="lastWriteTimestamp", default=0)
    master_flush_offset: Int64 = 0
    #: Why it follows nobody; ours alone.
    refused: str | None = None


class HaStatus(Body, frozen=True, kw_only=True):
    """A broker among the copies of its log."""

    leads: bool = msgspec.field(name="master", default=False)
    #: Where the log of a leader ends.
    log_end: Int64 = msgspec.field(name="masterCommitLogMaxOffset", default=0)
    in_sync: Int32 = msgspec.field(name="inSyncSlaveNums", default=0)
    followers: tuple[HaConnection, ...] = msgspec.field(name="haConnectionInfo", default=())
    following: HaClient = msgspec.field(name="haClientRuntimeInfo", default=HaClient())


@dataclass(frozen=True, slots=True, kw_only=True)
class HaStatusReply:
    """How far the copies are."""

    status: HaStatus = json_body()


@request(RequestCode.GET_BROKER_HA_STATUS)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetHaStatus(Request[HaStatusReply]):
    """Ask a broker for its followers, or for how it follows."""


@request(RequestCode.RESET_MASTER_FLUSH_OFFSET)
@dataclass(frozen=True, slots=True, kw_only=True)
class ResetMasterFlushOffset(Request[None]):
    """Tell a follower up to where its leader's log is on the disk."""

    master_flush_offset: int


class EpochSpan(Body, frozen=True, kw_only=True):
    """The part of a log that one leader wrote."""

    epoch: Int32 = 0
    start: Int64 = msgspec.field(name="startOffset", default=0)
    #: The largest number there is, for the last one.
    end: Int64 = msgspec.field(name="endOffset", default=(1 << 63) - 1)


class EpochCache(Body, frozen=True, kw_only=True):
    """Which leader wrote which part of a broker's log."""

    cluster: str | None = msgspec.field(name="clusterName", default=None)
    broker_name: str | None = None
    broker_id: Int64 = 0
    epochs: tuple[EpochSpan, ...] = msgspec.field(name="epochList", default=())
    log_end: Int64 = msgspec.field(name="maxOffset", default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCacheReply:
    """The epochs of a log."""

    cache: EpochCache = json_body()


@request(RequestCode.GET_BROKER_EPOCH_CACHE)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetEpochCache(Request[EpochCacheReply]):
    """Ask which leader wrote which part of a log; a broker without epochs refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerCheckPointReply:
    """Seven 8-byte numbers, as the file ``timercheck`` begins."""

    numbers: bytes = raw_body()


@request(RequestCode.GET_TIMER_CHECK_POINT)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetTimerCheckPoint(Request[TimerCheckPointReply]):
    """Ask up to where timed messages were delivered, for a follower to take over there."""


class TimerMetric(Body, frozen=True, kw_only=True):
    """How many messages of a topic wait for their time."""

    count: Int64 = 0
    changed_ms: Int64 = msgspec.field(name="timeStamp", default=0)


class TimerMetrics(Body, frozen=True, kw_only=True):
    """How many messages wait for their time, by topic."""

    version: DataVersion = msgspec.field(name="dataVersion", default=DataVersion())
    counts: dict[str, TimerMetric] = msgspec.field(name="timingCount", default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerMetricsReply:
    """What waits."""

    metrics: TimerMetrics = json_body()


@request(RequestCode.GET_TIMER_METRICS)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetTimerMetrics(Request[TimerMetricsReply]):
    """Ask how many messages of each topic wait for their time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerReply:
    """Who decides on a group."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    #: ``id:host:port;id:host:port``.
    peers: str | None = None


@request(RequestCode.CONTROLLER_GET_METADATA_INFO)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetController(Request[ControllerReply]):
    """Ask whom to ask about groups; tools do so first."""


class ReplicaIdentity(Body, frozen=True, kw_only=True):
    """One copy of a group's log."""

    broker_name: str | None = None
    id: Int64 = msgspec.field(name="brokerId", default=0)
    address: str | None = msgspec.field(name="brokerAddress", default=None)
    alive: bool = False


class Replicas(Body, frozen=True, kw_only=True):
    """Who leads a group, and who is in sync."""

    leader_id: Int64 = msgspec.field(name="masterBrokerId", default=-1)
    leader: str | None = msgspec.field(name="masterAddress", default=None)
    epoch: Int32 = msgspec.field(name="masterEpoch", default=0)
    set_epoch: Int32 = msgspec.field(name="syncStateSetEpoch", default=0)
    in_sync: tuple[ReplicaIdentity, ...] = msgspec.field(name="inSyncReplicas", default=())
    others: tuple[ReplicaIdentity, ...] = msgspec.field(name="notInSyncReplicas", default=())


class ReplicasByName(Body, frozen=True, kw_only=True):
    """The groups that were asked for."""

    groups: dict[str, Replicas] = msgspec.field(name="replicasInfoTable", default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStateReply:
    """Who is in sync."""

    replicas: ReplicasByName = json_body()


@request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetSyncState(Request[SyncStateReply]):
    """Ask who is in sync in groups; the body is a list of their names, as JSON."""

    names: bytes = raw_body(default=b"[]")


class Elected(Body, frozen=True, kw_only=True):
    """The group after an election."""

    members: BrokerMembers | None = msgspec.field(name="brokerMemberGroup", default=None)
    in_sync: tuple[Int64, ...] = msgspec.field(name="syncStateSet", default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectMasterReply:
    """Who leads now."""

    master_broker_id: int | None = None
    master_address: str | None = None
    master_epoch: I32 | None = None
    sync_state_set_epoch: I32 | None = None
    # RocketMQ's own tools cannot read the bare keys that its controllers write here.
    elected: Elected = json_body(strict=True)


@request(RequestCode.CONTROLLER_ELECT_MASTER)
@dataclass(frozen=True, slots=True, kw_only=True)
class ElectMaster(Request[ElectMasterReply]):
    """Have another lead: the one that is named, or any that is in sync."""

    cluster_name: str
    broker_name: str
    broker_id: int
    designate_elect: bool
    invoke_time: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadAnywayReply:
    """What the replica has, and of whom it cannot know that it has all of theirs."""

    log_end: int
    #: The last leader that it followed, or led as.
    last_epoch: I32
    #: The in-sync replicas, and those of them that are there though their machine crashed.
    in_sync: str = ""
    unclean: str = ""
    #: Those that are there and have more of the log.
    ahead: str = ""
    #: In which epoch it leads now; None if it was only asked what would be lost.
    epoch: I32 | None = None


@request(RequestCode.LEAD_ANYWAY)
@dataclass(frozen=True, slots=True, kw_only=True)
class LeadAnyway(Request[LeadAnywayReply]):
    """Have a replica lead though what was acknowledged may be missing there, or ask what may."""

    broker_name: str
    #: As it is known in its group, so that no other one is meant.
    broker_id: int
    do_it: bool


@request(RequestCode.FORGET_REPLICA)
@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetReplica(Request[None]):
    """Have a leader keep nothing any more for a replica that is gone for good."""

    broker_name: str
    broker_id: int
