"""Requests about a broker's topics."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rocketpipe.model.body import Body, Int32, Int64
from rocketpipe.model.route import MessageQueue, QueueMapping
from rocketpipe.model.topic import DataVersion, TopicFilterType, TopicSettings
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.fields import I32, json_body, wire
from rocketpipe.protocol.request import Request, request
from rocketpipe.protocol.requests.routes import TopicNamesReply


@request(RequestCode.UPDATE_AND_CREATE_TOPIC)
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAndCreateTopic(Request[None]):
    """Create a topic, or change its settings."""

    topic: str
    #: Not used by brokers, but never missing.
    default_topic: str
    read_queue_nums: I32
    write_queue_nums: I32
    #: Bits of Perm.
    perm: I32
    topic_filter_type: TopicFilterType = TopicFilterType.SINGLE_TAG
    topic_sys_flag: I32 = 0
    order: bool = False
    #: A change: ``+message.type=FIFO``.
    attributes: str | None = None
    force: bool = False
    broker_name: str | None = wire("bname", default=None)


class TopicList(Body, frozen=True, kw_only=True):
    """Topics with their settings; attributes are a change here: ``{"+message.type":"FIFO"}``."""

    topics: tuple[TopicSettings, ...] = msgspec.field(name="topicConfigList", default=())


@request(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST)
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAndCreateTopicList(Request[None]):
    """Create or change many topics at once."""

    broker_name: str | None = wire("bname", default=None)
    wanted: TopicList = json_body()


@request(RequestCode.DELETE_TOPIC_IN_BROKER)
@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic(Request[None]):
    """Delete a topic with its messages, at one broker."""

    topic: str
    broker_name: str | None = wire("bname", default=None)


class QueueMappingItem(Body, frozen=True, kw_only=True):
    """Where a stretch of a static topic's queue lies."""

    generation: Int32 = msgspec.field(name="gen", default=0)
    queue_id: Int32 = 0
    broker_name: str | None = msgspec.field(name="bname", default=None)
    logic_offset: Int64 = 0
    start_offset: Int64 = 0
    #: -1 while it still grows.
    end_offset: Int64 = -1
    time_of_start: Int64 = -1
    time_of_end: Int64 = -1


class QueueMappingDetail(QueueMapping, frozen=True, kw_only=True):
    """Which queues of a static topic one broker holds, and where each of them was before."""

    hosted_queues: dict[Int32, tuple[QueueMappingItem, ...]] = msgspec.field(default_factory=dict)


class TopicDetails(TopicSettings, frozen=True, kw_only=True):
    """A topic's settings, and how its queues are mapped if it is a static topic."""

    mapping: QueueMappingDetail | None = msgspec.field(name="mappingDetail", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDetailsReply:
    """What the broker keeps about the topic."""

    details: TopicDetails = json_body()


@request(RequestCode.GET_TOPIC_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetTopicConfig(Request[TopicDetailsReply]):
    """Ask for one topic's settings."""

    topic: str
    #: Whether queue numbers are those of a static topic as a whole.
    logical: bool | None = wire("lo", default=None)
    broker_name: str | None = wire("bname", default=None)


class TopicTablePage(Body, frozen=True, kw_only=True):
    """Topics by name, and which state of the table they are of."""

    topics: dict[str, TopicSettings] = msgspec.field(name="topicConfigTable", default_factory=dict)
    version: DataVersion = msgspec.field(name="dataVersion", default=DataVersion())
    mappings: dict[str, QueueMapping] = msgspec.field(
        name="topicQueueMappingInfoMap", default_factory=dict
    )
    mapping_details: dict[str, QueueMappingDetail] = msgspec.field(
        name="topicQueueMappingDetailMap", default_factory=dict
    )
    mapping_version: DataVersion = msgspec.field(name="mappingDataVersion", default=DataVersion())


@dataclass(frozen=True, slots=True, kw_only=True)
class AllTopicsReply:
    """A page of the topics, and how many there are in all."""

    total_topic_num: I32 | None = None
    table: TopicTablePage = json_body()


@request(RequestCode.GET_ALL_TOPIC_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllTopicConfig(Request[AllTopicsReply]):
    """Ask for every topic's settings; all at once if no field is given, else a page of them."""

    #: The place of the page's first topic, in the order of names.
    topic_seq: I32 | None = None
    #: The version of the pages before, as JSON; after a change the first page comes again.
    data_version: str | None = None
    max_topic_num: I32 | None = None


class QueueRange(Body, frozen=True, kw_only=True):
    """The offsets of one queue, and when its last message was stored, if it has one."""

    min_offset: Int64 = 0
    max_offset: Int64 = 0
    last_update_timestamp: Int64 | None = None


class TopicStats(Body, frozen=True, kw_only=True):
    """Every queue of a topic at one broker."""

    queues: dict[MessageQueue, QueueRange] = msgspec.field(name="offsetTable", default_factory=dict)
    put_tps: float | None = msgspec.field(name="topicPutTps", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatsReply:
    """How much the topic's queues hold."""

    stats: TopicStats = json_body()


@request(RequestCode.GET_TOPIC_STATS_INFO)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetTopicStats(Request[TopicStatsReply]):
    """Ask for the offsets of each of a topic's queues."""

    topic: str
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerSystemTopics(Request[TopicNamesReply]):
    """Ask for the names of the topics that are the broker's own."""
