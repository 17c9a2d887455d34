"""A NameServer and broker in one, on a real port: it answers what a test has put down for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rocketpipe.client.session import Session
from rocketpipe.clock import Clock
from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import BrokerAddresses, BrokerQueues, MessageQueue, TopicRoute
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.clients import (
    ConsumerIds,
    ConsumerListReply,
    GetConsumerListByGroup,
    Heartbeat,
    HeartbeatReply,
    UnregisterClient,
)
from rocketpipe.protocol.requests.offsets import (
    GetMaxOffset,
    GetMinOffset,
    OffsetReply,
    QueryConsumerOffset,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)
from rocketpipe.protocol.requests.pulling import PullMessage, PullMessageReply
from rocketpipe.protocol.requests.routes import GetRouteInfoByTopic, RouteReply
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.remoting.server import Server


class Desk:
    """What the brokers know; a test changes it, and looks at what was asked."""

    def __init__(self) -> None:
        self.address = ""
        #: Queues by topic and broker.
        self.topics: dict[str, dict[str, int]] = {}
        #: The brokers of a name by their ids, where there are more than this one, or others.
        self.replicas: dict[str, dict[int, str]] = {}
        #: What brokers say who the members are; None: what heartbeats say.
        self.members: list[str] | None = None
        self.beating: dict[str, int] = {}
        self.offsets: dict[tuple[str, int], int] = {}
        self.ends = (0, 100)
        #: Raised instead of an answer, by the name of the request.
        self.refuse: dict[str, RequestRejected] = {}
        self.asked: list[object] = []

    def queues(self, topic: str) -> list[MessageQueue]:
        return [
            MessageQueue(topic=topic, broker_name=name, queue_id=number)
            for name, count in sorted(self.topics[topic].items())
            for number in range(count)
        ]

    def count(self, kind: type) -> int:
        return sum(isinstance(request, kind) for request in self.asked)

    def _note(self, request: object) -> None:
        self.asked.append(request)
        refusal = self.refuse.get(type(request).__name__)
        if refusal is not None:
            raise refusal

    @handles(GetRouteInfoByTopic)
    async def route(self, request: GetRouteInfoByTopic, call: Call) -> RouteReply:
        self._note(request)
        brokers = self.topics.get(request.topic)
        if brokers is None:
            raise RequestRejected(ResponseCode.TOPIC_NOT_EXIST, "unknown")
        return RouteReply(
            route=TopicRoute(
                queues=tuple(
                    BrokerQueues(broker_name=name, read_queues=count, write_queues=count, perm=6)
                    for name, count in brokers.items()
                ),
                brokers=tuple(
                    BrokerAddresses(
                        cluster="c",
                        broker_name=name,
                        addresses=self.replicas.get(name, {0: self.address}),
                    )
                    for name in brokers
                ),
            )
        )

    @handles(Heartbeat)
    async def beat(self, request: Heartbeat, call: Call) -> HeartbeatReply:
        self._note(request)
        self.beating[request.data.client_id] = len(request.data.consumers)
        return HeartbeatReply()

    @handles(UnregisterClient)
    async def unregister(self, request: UnregisterClient, call: Call) -> None:
        self._note(request)

    @handles(GetConsumerListByGroup)
    async def who(self, request: GetConsumerListByGroup, call: Call) -> ConsumerListReply:
        self._note(request)
        members = sorted(self.beating) if self.members is None else self.members
        return ConsumerListReply(members=ConsumerIds(consumer_ids=tuple(members)))

    @handles(QueryConsumerOffset)
    async def offset(self, request: QueryConsumerOffset, call: Call) -> OffsetReply:
        self._note(request)
        offset = self.offsets.get((request.topic, request.queue_id))
        if offset is None:
            raise RequestRejected(ResponseCode.QUERY_NOT_FOUND, "not found")
        return OffsetReply(offset=QueueOffset(offset))

    @handles(UpdateConsumerOffset)
    async def update(self, request: UpdateConsumerOffset, call: Call) -> None:
        self._note(request)
        self.offsets[request.topic, request.queue_id] = request.commit_offset

    @handles(GetMinOffset)
    async def least(self, request: GetMinOffset, call: Call) -> OffsetReply:
        self._note(request)
        return OffsetReply(offset=QueueOffset(self.ends[0]))

    @handles(GetMaxOffset)
    async def greatest(self, request: GetMaxOffset, call: Call) -> OffsetReply:
        self._note(request)
        return OffsetReply(offset=QueueOffset(self.ends[1]))

    @handles(SearchOffsetByTimestamp)
    async def at(self, request: SearchOffsetByTimestamp, call: Call) -> OffsetReply:
        self._note(request)
        return OffsetReply(offset=QueueOffset(request.timestamp // 1000))


class PullDesk(Desk):
    """A broker whose answers to pulls are written down beforehand; then it lets pulls wait."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[PullMessageReply | RequestRejected] = []
        self.pulls: list[PullMessage] = []
        self.codes: list[int] = []

    @handles(PullMessage)
    async def pull(self, request: PullMessage, call: Call) -> PullMessageReply:
        self.pulls.append(request)
        self.codes.append(call.command.code)
        if not self.answers:
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, RequestRejected):
            raise answer
        return answer


def found(*records: bytes, next_offset: int, broker_id: int = 0) -> PullMessageReply:
    return PullMessageReply(
        code=ResponseCode.SUCCESS if records else ResponseCode.PULL_NOT_FOUND,
        suggest_which_broker_id=broker_id,
        next_begin_offset=QueueOffset(next_offset),
        min_offset=QueueOffset(0),
        max_offset=QueueOffset(100),
        messages=b"".join(records),
    )


@asynccontextmanager
async def desk_and_session(
    clock: Clock | None = None, /, **topics: dict[str, int]
) -> AsyncIterator[tuple[PullDesk, Session]]:
    """Serve, and connect a client."""
    desk = PullDesk()
    desk.topics.update(topics)
    async with Server.bound("127.0.0.1", 0) as server, server.serving(Router(desk).answer):
        desk.address = server.address
        async with Session(server.address, clock=clock) as session:
            yield desk, session
