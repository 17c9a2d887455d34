"""Requests about a broker's topics."""

from __future__ import annotations

from dataclasses import dataclass

from rocketpipe.model.topic import TopicFilterType
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.fields import I32, wire
from rocketpipe.protocol.request import Request, request


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
