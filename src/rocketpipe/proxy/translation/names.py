"""Topics and groups as gRPC names them, a namespace beside a name, and as brokers do."""

from __future__ import annotations

from rocketpipe.errors import InvalidName
from rocketpipe.model.names import (
    check_group,
    check_topic,
    is_system_group,
    is_system_topic,
    with_namespace,
)
from rocketpipe.proxy.status import Refused
from rocketpipe.proxy.v2 import messaging_pb2 as pb


def topic_name(resource: pb.Resource, namespace: str = "") -> str:
    """The topic's name at the broker.

    Raises:
        Refused: No topic of a user has such a name.
    """
    name = with_namespace(resource.name, resource.resource_namespace or namespace)
    try:
        check_topic(name)
    except InvalidName as error:
        raise Refused(pb.ILLEGAL_TOPIC, str(error)) from error
    if is_system_topic(name):
        raise Refused(pb.ILLEGAL_TOPIC, f"topic {name} is the broker's own: use one of yours")
    return name


def group_name(resource: pb.Resource, namespace: str = "") -> str:
    """The consumer group's name at the broker.

    Raises:
        Refused: No group of a user has such a name.
    """
    name = with_namespace(resource.name, resource.resource_namespace or namespace)
    try:
        check_group(name)
    except InvalidName as error:
        raise Refused(pb.ILLEGAL_CONSUMER_GROUP, str(error)) from error
    if is_system_group(name):
        raise Refused(
            pb.ILLEGAL_CONSUMER_GROUP, f"group {name} is the broker's own: use one of yours"
        )
    return name
