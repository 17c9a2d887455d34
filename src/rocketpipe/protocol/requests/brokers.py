"""Requests about a broker as a whole: its settings, how it fares, and what it cleans up."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rocketpipe.model.body import Body, Int32, Int64
from rocketpipe.model.topic import DataVersion
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.fields import I32, json_body, raw_body, reply_remark, wire
from rocketpipe.protocol.request import Request, request
from rocketpipe.protocol.requests.progress import ConsumeStats
from rocketpipe.protocol.requests.routes import KeyValues

# Settings


@request(RequestCode.UPDATE_BROKER_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateBrokerConfig(Request[None]):
    """Change settings while the broker runs; all of them or, if one is refused, none."""

    #: Lines of ``key=value``.
    properties: bytes = raw_body(default=b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfigReply:
    """Every setting as a line of ``key=value``, and which state of them this is, as JSON."""

    version: str
    #: Keys that can be changed while the broker runs, with commas; only ours tell them.
    live_keys: str | None = None
    properties: bytes = raw_body()


@request(RequestCode.GET_BROKER_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerConfig(Request[BrokerConfigReply]):
    """Ask for every setting."""


# How it fares


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeInfoReply:
    """Numbers by their names, all as text."""

    values: KeyValues = json_body()


@request(RequestCode.GET_BROKER_RUNTIME_INFO)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerRuntimeInfo(Request[RuntimeInfoReply]):
    """Ask how the broker fares: its rates, its disk, what waits."""


class StatsWindow(Body, frozen=True, kw_only=True):
    """What was counted in a span of time, and what that is a second and an occasion."""

    total: Int64 = msgspec.field(name="sum", default=0)
    tps: float = 0.0
    average: float = msgspec.field(name="avgpt", default=0.0)


class StatsWindows(Body, frozen=True, kw_only=True):
    """One thing that is counted, over the last minute, hour and day."""

    minute: StatsWindow | None = msgspec.field(name="statsMinute", default=None)
    hour: StatsWindow | None = msgspec.field(name="statsHour", default=None)
    day: StatsWindow | None = msgspec.field(name="statsDay", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatsReply:
    """The counts that were asked for."""

    stats: StatsWindows = json_body()


@request(RequestCode.VIEW_BROKER_STATS_DATA)
@dataclass(frozen=True, slots=True, kw_only=True)
class ViewBrokerStats(Request[BrokerStatsReply]):
    """Ask for one count: ``TOPIC_PUT_NUMS`` of a topic, ``GROUP_GET_NUMS`` of ``topic@group``."""

    stats_name: str
    stats_key: str


class GroupsConsumeStats(Body, frozen=True, kw_only=True):
    """How far every group has come, a map of one group each, and how far behind all are."""

    broker_address: str | None = msgspec.field(name="brokerAddr", default=None)
    groups: tuple[dict[str, tuple[ConsumeStats, ...]], ...] = msgspec.field(
        name="consumeStatsList", default=()
    )
    total_diff: Int64 = 0
    total_inflight_diff: Int64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConsumeStatsReply:
    """The progress of every group of the broker."""

    stats: GroupsConsumeStats = json_body()


@request(RequestCode.GET_BROKER_CONSUME_STATS)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerConsumeStats(Request[BrokerConsumeStatsReply]):
    """Ask how far every group has come, in ordered topics alone or in all."""

    is_order: bool


# Whole tables


class ConsumerOffsetTable(Body, frozen=True, kw_only=True):
    """Offsets by ``topic@group`` and queue."""

    version: DataVersion = msgspec.field(name="dataVersion", default=DataVersion())
    offsets: dict[str, dict[Int32, Int64]] = msgspec.field(name="offsetTable", default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllConsumerOffsetsReply:
    """What every group has committed."""

    table: ConsumerOffsetTable = json_body()


@request(RequestCode.GET_ALL_CONSUMER_OFFSET)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllConsumerOffsets(Request[AllConsumerOffsetsReply]):
    """Ask for everything that groups have committed."""


class DelayOffsetTable(Body, frozen=True, kw_only=True):
    """The next offset of each delay level."""

    version: DataVersion = msgspec.field(name="dataVersion", default=DataVersion())
    offsets: dict[Int32, Int64] = msgspec.field(name="offsetTable", default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllDelayOffsetsReply:
    """How far the delivery of delayed messages has come."""

    table: DelayOffsetTable = json_body()


@request(RequestCode.GET_ALL_DELAY_OFFSET)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllDelayOffsets(Request[AllDelayOffsetsReply]):
    """Ask how far the delivery of each delay level has come."""


# Cleaning


@request(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
@dataclass(frozen=True, slots=True, kw_only=True)
class CleanExpiredQueues(Request[None]):
    """Remove entries and files of queues whose messages the log has no more."""


@request(RequestCode.CLEAN_UNUSED_TOPIC)
@dataclass(frozen=True, slots=True, kw_only=True)
class CleanUnusedTopics(Request[None]):
    """Remove the queues of topics that are not there any more."""


@request(RequestCode.DELETE_EXPIRED_COMMITLOG)
@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteExpiredLog(Request[None]):
    """Remove files of the log that are past their time, without waiting for the hour."""


# Reading the log


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReadModeReply:
    """That it is done, in words: RocketMQ's tools show them."""

    remark: str | None = reply_remark()


@request(RequestCode.SET_COMMITLOG_READ_MODE)
@dataclass(frozen=True, slots=True, kw_only=True)
class SetLogReadMode(Request[LogReadModeReply]):
    """Have the system read ahead in the log's files (0), or only what is asked for (1)."""

    mode: I32 = wire("READ_AHEAD_MODE")


@request(RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class LimitColdReads(Request[None]):
    """Set how many bytes of old messages single groups may read in five seconds."""

    #: Lines of ``group=bytes``.
    limits: bytes = raw_body(default=b"")


@request(RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class UnlimitColdReads(Request[None]):
    """Have a group read as much of old messages as others may."""

    group: bytes = raw_body(default=b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdReadsReply:
    """Who reads old messages, and how much each may, as JSON."""

    info: bytes = raw_body()


@request(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetColdReads(Request[ColdReadsReply]):
    """Ask who reads old messages, and how much each may."""
