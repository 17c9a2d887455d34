"""Members of a session, and a broker that notes what it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager

from tests.waiting import PATIENCE_S

from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import BrokerAddresses, BrokerQueues, MessageQueue, TopicRoute
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.clients import (
    ConsumerData,
    Heartbeat,
    HeartbeatData,
    HeartbeatReply,
    UnregisterClient,
)
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.remoting.server import Server


class Part:
    """A producer, a consumer or both, as a session sees it."""

    def __init__(
        self,
        *,
        produces: Sequence[str] = (),
        consumes: Sequence[str] = (),
        topics: Sequence[str] = (),
    ) -> None:
        self._produces, self._consumes, self._topics = produces, consumes, topics
        self.changed_groups: list[str] = []
        self.changed_topics: list[str] = []
        self.resets: list[tuple[str, dict[MessageQueue, QueueOffset]]] = []

    def producer_groups(self) -> Sequence[str]:
        return self._produces

    def consumers(self) -> Sequence[ConsumerData]:
        return [ConsumerData(group_name=group) for group in self._consumes]

    def topics(self) -> Collection[str]:
        return self._topics

    def on_ids_changed(self, group: str) -> None:
        self.changed_groups.append(group)

    def on_routes_changed(self, topic: str) -> None:
        self.changed_topics.append(topic)

    def on_offsets_reset(self, group: str, offsets: Mapping[MessageQueue, QueueOffset]) -> None:
        self.resets.append((group, dict(offsets)))


class Listener:
    """A broker that notes heartbeats and goodbyes; it may refuse them, or make them wait."""

    def __init__(self) -> None:
        self.beats: list[HeartbeatData] = []
        self.goodbyes: list[tuple[str | None, str | None]] = []
        self.peers: list[PeerConnection] = []
        self.refuses = False
        self.reached = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()
        self.hears = asyncio.Event()
        self.hears.set()

    @handles(Heartbeat)
    async def beat(self, request: Heartbeat, call: Call) -> HeartbeatReply:
        self.beats.append(request.data)
        self.peers.append(call.peer)
        self.reached.set()
        await self.answers.wait()
        if self.refuses:
            raise RequestRejected(ResponseCode.SYSTEM_BUSY, "not now")
        return HeartbeatReply()

    @handles(UnregisterClient)
    async def goodbye(self, request: UnregisterClient, call: Call) -> None:
        self.goodbyes.append((request.producer_group, request.consumer_group))
        await self.hears.wait()

    async def beaten(self, times: int) -> None:
        """Wait for so many heartbeats in all."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.beats) < times:
                self.reached.clear()
                await self.reached.wait()


@asynccontextmanager
async def listening(listener: Listener) -> AsyncIterator[str]:
    """Serve it on a free port, inside the block."""
    async with Server.bound("127.0.0.1", 0) as server:
        async with server.serving(Router(listener).answer):
            yield server.address


def route_to(**addresses: dict[int, str]) -> TopicRoute:
    """A route to brokers, by name, each with its addresses by id."""
    return TopicRoute(
        queues=tuple(
            BrokerQueues(broker_name=name, read_queues=4, write_queues=4, perm=6)
            for name in addresses
        ),
        brokers=tuple(
            BrokerAddresses(cluster="c", broker_name=name, addresses=by_id)
            for name, by_id in addresses.items()
        ),
    )
