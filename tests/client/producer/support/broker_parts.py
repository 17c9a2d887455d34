"""Brokers that take sends as a test tells them to, and a session that knows them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.client.support.name_server_parts import KnownTopics, served
from tests.waiting import PATIENCE_S

from rocketpipe.client.session import Session
from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import BrokerAddresses, BrokerQueues, TopicRoute
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.clients import Heartbeat, HeartbeatReply, UnregisterClient
from rocketpipe.protocol.requests.offsets import GetMaxOffset, OffsetReply
from rocketpipe.protocol.requests.sending import SendMessage, SendMessageReply
from rocketpipe.protocol.requests.transactions import EndTransaction
from rocketpipe.record.batch import decode_batch
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.remoting.server import Server
from rocketpipe.testing import ManualClock

T = TypeVar("T")

#: Refused, and how; or lost, or not answered; or stored, with this code.
LOST, SILENT = "lost", "silent"


class Taker:
    """A broker that stores what it is sent, unless it was told what else to do next."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.address = ""
        self.taken: list[SendMessage] = []
        self.asked = 0
        self.probed = 0
        #: What becomes of the next sends, in order; after them, all goes well.
        self.next: list[int | str | RequestRejected] = []
        #: What it says to every send while it does not lead; None while it does.
        self.follows: RequestRejected | None = None
        #: The decisions it was told, and what becomes of the next ones.
        self.ended: list[EndTransaction] = []
        self.next_ends: list[int | str] = []
        self.peers: list[PeerConnection] = []
        self.arrived = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()

    @handles(SendMessage)
    async def take(self, request: SendMessage, call: Call) -> SendMessageReply:
        self.asked += 1
        self.arrived.set()
        await self.answers.wait()
        fate = self.follows or (self.next.pop(0) if self.next else 0)
        if isinstance(fate, RequestRejected):
            raise RequestRejected(fate.code, fate.remark)
        if fate == LOST:
            call.peer.abort()
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "never heard")
        if fate == SILENT:
            await asyncio.get_running_loop().create_future()
        assert isinstance(fate, int)
        if fate not in (0, 10, 11, 12):
            raise RequestRejected(fate, f"{self.name} says no")
        first = len(self.taken)
        self.taken.append(request)
        count = len(list(decode_batch(request.body))) if request.batch else 1
        ids = ",".join(f"{first:08X}{number:08X}" for number in range(count))
        if "TRAN_MSG" in request.properties:
            ids = f"7F00000100002A9F{first:016X}"  # its producer looks into it
        return SendMessageReply(
            code=fate,
            msg_id=ids,
            queue_id=request.queue_id,
            queue_offset=QueueOffset(100 * first),
            transaction_id="T",
            region="Oslo",
            trace_on=True,
        )

    @handles(EndTransaction)
    async def end_transaction(self, request: EndTransaction, call: Call) -> None:
        if self.follows is not None:
            raise RequestRejected(self.follows.code, self.follows.remark)
        self.ended.append(request)
        fate = self.next_ends.pop(0) if self.next_ends else 0
        if fate == LOST:
            call.peer.abort()
        if fate:
            raise RequestRejected(int(fate) if fate != LOST else 1, f"{self.name} says no")

    @handles(GetMaxOffset)
    async def end(self, request: GetMaxOffset, call: Call) -> OffsetReply:
        self.probed += 1
        return OffsetReply(offset=QueueOffset(0))

    @handles(Heartbeat)
    async def beat(self, request: Heartbeat, call: Call) -> HeartbeatReply:
        if call.peer not in self.peers:
            self.peers.append(call.peer)
        return HeartbeatReply()

    @handles(UnregisterClient)
    async def goodbye(self, request: UnregisterClient, call: Call) -> None: ...


@dataclass(slots=True)
class World:
    """A NameServer and brokers that all hold topic ``t``, and the clock that clients go by."""

    name_server: str
    known: KnownTopics
    brokers: dict[str, Taker]
    clock: ManualClock = field(default_factory=ManualClock)

    def __getitem__(self, name: str) -> Taker:
        return self.brokers[name]

    def route(self, *names: str) -> TopicRoute:
        return TopicRoute(
            queues=tuple(
                BrokerQueues(broker_name=name, read_queues=2, write_queues=2, perm=6)
                for name in names
            ),
            brokers=tuple(
                BrokerAddresses(
                    cluster="c", broker_name=name, addresses={0: self.brokers[name].address}
                )
                for name in names
            ),
        )

    def led_by(self, name: str, leader: str | None, *followers: str, topic: str = "t") -> None:
        """Have brokers share a name: one leads, if any does, and the others say 14 to sends."""
        members = [*([leader] if leader else []), *followers]
        ids = {0 if each == leader else 1 + at: each for at, each in enumerate(members)}
        for each in members:
            no = RequestRejected(ResponseCode.SERVICE_NOT_AVAILABLE, "not the leader")
            self.brokers[each].follows = None if each == leader else no
        group = BrokerAddresses(
            cluster="c",
            broker_name=name,
            addresses={number: self.brokers[each].address for number, each in ids.items()},
        )
        before = self.known.routes.get(topic, TopicRoute())
        held = BrokerQueues(broker_name=name, read_queues=2, write_queues=2, perm=6)
        self.known.routes[topic] = TopicRoute(
            queues=(held, *(each for each in before.queues if each.broker_name != name)),
            brokers=(group, *(each for each in before.brokers if each.broker_name != name)),
        )

    def session(self) -> Session:
        return Session(self.name_server, clock=self.clock)

    @property
    def taken(self) -> int:
        return sum(len(broker.taken) for broker in self.brokers.values())


async def turned(clock: ManualClock, work: Coroutine[Any, Any, T], step_ms: int = 10) -> T:
    """What comes of work that waits for time to pass, which is turned on for it."""
    task = asyncio.create_task(work)
    async with asyncio.timeout(PATIENCE_S):
        while not task.done():
            await clock.advance(step_ms)
            await asyncio.sleep(0.001)  # for sockets, whose time is the machine's
    return task.result()


@asynccontextmanager
async def world(*names: str) -> AsyncIterator[World]:
    """Run brokers of these names inside the block."""
    known = KnownTopics()
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(served(known))
        here = World(address, known, {name: Taker(name) for name in names})
        for taker in here.brokers.values():
            server = await stack.enter_async_context(Server.bound("127.0.0.1", 0))
            await stack.enter_async_context(server.serving(Router(taker).answer))
            taker.address = server.address
        known.routes["t"] = here.route(*names)
        yield here
