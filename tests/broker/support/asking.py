"""Requests that tests of operators' handlers make again and again."""

from __future__ import annotations

from rocketpipe.model import properties
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData
from rocketpipe.protocol.requests.groups import UpdateAndCreateGroup
from rocketpipe.protocol.requests.offsets import UpdateConsumerOffset
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.protocol.requests.topics import UpdateAndCreateTopic


def topic(name: str, queues: int = 1, *, ordered: bool = False) -> UpdateAndCreateTopic:
    return UpdateAndCreateTopic(
        topic=name,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=6,
        order=ordered,
    )


def group(name: str) -> UpdateAndCreateGroup:
    return UpdateAndCreateGroup(settings=GroupSettings(name=name))


def joining(of_group: str, client_id: str) -> Heartbeat:
    """A client comes into a group, in the place of who came by the same connection before."""
    consumers = (ConsumerData(group_name=of_group, subscriptions=()),)
    return Heartbeat(data=HeartbeatData(client_id=client_id, consumers=consumers))


def message(name: str, body: bytes = b"body", queue_id: int = 0, tag: str = "") -> SendMessage:
    given = {properties.UNIQ_KEY: f"{body.hex():0>32}"}
    if tag:
        given[properties.TAGS] = tag
    return SendMessage(
        producer_group="p",
        topic=name,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties=properties.encode(given),
        body=body,
    )


def commit(of_group: str, name: str, offset: int, queue_id: int = 0) -> UpdateConsumerOffset:
    return UpdateConsumerOffset(
        consumer_group=of_group,
        topic=name,
        queue_id=queue_id,
        commit_offset=QueueOffset(offset),
    )
