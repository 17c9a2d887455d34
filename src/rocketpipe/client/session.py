"""One client: its connections and routes, shared by the producers and consumers in it."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rocketpipe.client.routes import NameServers, RouteCache
from rocketpipe.errors import NoRoute
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue, TopicRoute
from rocketpipe.protocol.requests.offsets import GetMaxOffset, GetMinOffset
from rocketpipe.remoting.caller import Caller


class Session:
    """Connections and routes for as long as its ``async with`` lasts."""

    def __init__(self, name_servers: str) -> None:
        self._name_servers = NameServers.parse(name_servers)
        self.caller = Caller()
        self.routes = RouteCache(self.caller, self._name_servers)

    async def __aenter__(self) -> Self:
        await self.caller.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.caller.__aexit__(kind, error, trace)

    def leader_of(self, queue: MessageQueue, route: TopicRoute) -> str:
        """The address of the broker that takes writes for a queue.

        Raises:
            NoRoute: If the route names no leader for the queue's broker.
        """
        broker = route.broker(queue.broker_name)
        if broker is None or broker.leader is None:
            hint = f"broker {queue.broker_name!r} has no leader now"
            raise NoRoute(queue.topic, str(self._name_servers), hint)
        return broker.leader

    async def ends_of(self, queue: MessageQueue, address: str) -> tuple[QueueOffset, QueueOffset]:
        """The offsets of a queue's oldest message, and of the one that will come next.

        Raises:
            ConnectionLost: If the broker is out of reach.
            RequestRejected: If it has no such queue.
        """
        topic, queue_id, name = queue.topic, queue.queue_id, queue.broker_name
        least = await self.caller.call(
            address, GetMinOffset(topic=topic, queue_id=queue_id, broker_name=name)
        )
        greatest = await self.caller.call(
            address, GetMaxOffset(topic=topic, queue_id=queue_id, broker_name=name)
        )
        return least.offset, greatest.offset
