"""QueryRoute and QueryAssignment: which queues there are, and which of them a consumer receives of.

Clients reach every broker through whoever answers here, so its own address stands for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rocketpipe.model.route import LEADER_ID, BrokerQueues, TopicRoute
from rocketpipe.model.topic import MessageType, Perm, TopicSettings
from rocketpipe.proxy.backend import Backend
from rocketpipe.proxy.calls import RpcCall
from rocketpipe.proxy.status import Refused, ok
from rocketpipe.proxy.translation.names import group_name, topic_name
from rocketpipe.proxy.v2 import messaging_pb2 as pb

_TYPES: Final = {
    MessageType.NORMAL: (pb.NORMAL,),
    MessageType.FIFO: (pb.FIFO,),
    MessageType.DELAY: (pb.DELAY,),
    MessageType.TRANSACTION: (pb.TRANSACTION,),
    MessageType.MIXED: (pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION),
    MessageType.UNSPECIFIED: (pb.MESSAGE_TYPE_UNSPECIFIED,),
}
#: Any queue of a broker.
_ANY: Final = -1


class Routes:
    """Answers where topics are."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def route(self, request: pb.QueryRouteRequest, call: RpcCall) -> pb.QueryRouteResponse:
        """Every queue of a topic.

        Raises:
            Refused: It is no topic, or the client does not say how it came here.
        """
        topic = topic_name(request.topic, call.namespace)
        endpoints = _endpoints(request.endpoints)
        route = await self._backend.route(topic, call.by)
        types = _accepted(await self._backend.topic(topic))
        return pb.QueryRouteResponse(
            status=ok(),
            message_queues=[
                pb.MessageQueue(
                    topic=request.topic,
                    id=number,
                    permission=permission,
                    broker=pb.Broker(name=name, id=LEADER_ID, endpoints=endpoints),
                    accept_message_types=types,
                )
                for name, number, permission in _queues(route)
            ],
        )

    async def assignment(
        self, request: pb.QueryAssignmentRequest, call: RpcCall
    ) -> pb.QueryAssignmentResponse:
        """What one member of a group receives of: all queues, as receipts keep members apart.

        Raises:
            Refused: Nothing may be read.
        """
        topic = topic_name(request.topic, call.namespace)
        group = await self._backend.group(group_name(request.group, call.namespace))
        endpoints = _endpoints(request.endpoints)
        route = await self._backend.route(topic, call.by)
        queues = route.readable_queues(topic)
        if not queues:
            raise Refused(pb.FORBIDDEN, f"no readable queue: topic {topic} may not be read")
        places = [(queue.broker_name, queue.queue_id) for queue in queues]
        if not group.ordered:
            places = [(name, _ANY) for name in dict.fromkeys(name for name, _ in places)]
        return pb.QueryAssignmentResponse(
            status=ok(),
            assignments=[
                pb.Assignment(
                    message_queue=pb.MessageQueue(
                        topic=request.topic,
                        id=number,
                        permission=pb.READ,
                        broker=pb.Broker(name=name, id=LEADER_ID, endpoints=endpoints),
                    )
                )
                for name, number in places
            ],
        )


def _endpoints(told: pb.Endpoints) -> pb.Endpoints:
    if not told.addresses:
        raise Refused(
            pb.ILLEGAL_ACCESS_POINT, "endpoints are missing: say by which address you came"
        )
    return told


def _accepted(settings: TopicSettings | None) -> tuple[pb.MessageType, ...]:
    return _TYPES[MessageType.NORMAL if settings is None else settings.message_type]


def _queues(route: TopicRoute) -> Iterator[tuple[str, int, pb.Permission]]:
    """Broker, number and permission; what may only be read or written comes first, as upstream."""
    for held in sorted(route.queues, key=lambda each: each.broker_name):
        broker = route.broker(held.broker_name)
        if broker is None or not broker.addresses:
            continue
        for number, permission in enumerate(_permissions(held)):
            yield held.broker_name, number, permission


def _permissions(held: BrokerQueues) -> list[pb.Permission]:
    reads = held.read_queues if held.perm & Perm.READ else 0
    writes = held.write_queues if held.perm & Perm.WRITE else 0
    both = min(reads, writes)
    if not reads and not writes:
        return [pb.NONE]
    return [pb.READ] * (reads - both) + [pb.WRITE] * (writes - both) + [pb.READ_WRITE] * both
