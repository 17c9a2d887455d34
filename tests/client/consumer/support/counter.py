"""The desk with a counter: it hands out messages, locks queues, and takes messages back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from tests.client.consumer.support.fake_broker import Desk

from rocketpipe.client.session import Session
from rocketpipe.clock import Clock
from rocketpipe.errors import RequestRejected
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.clients import (
    CheckClientConfig,
    LockBatch,
    LockBatchReply,
    LockedQueues,
    UnlockBatch,
)
from rocketpipe.protocol.requests.groups import GetGroupConfig, GroupReply
from rocketpipe.protocol.requests.pulling import PullMessage, PullMessageReply
from rocketpipe.protocol.requests.sending import SendMessage, SendMessageBack, SendMessageReply
from rocketpipe.record.codec import encode_record
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.remoting.server import Server


class Counter(Desk):
    """What a consumer needs of brokers; a test changes it, and looks at what was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.records: dict[tuple[str, int], list[StoredMessage]] = {}
        #: Where pulls are sent that ask for less.
        self.least = 0
        self.owners: dict[MessageQueue, str] = {}
        self.suggests = 0
        self.max_retries = 16
        self._grown = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def serving(cls, **topics: dict[str, int]) -> AsyncIterator[Self]:
        """Serve; topics by name, each with its queues by broker."""
        counter = cls()
        counter.topics.update(topics)
        async with Server.bound("127.0.0.1", 0) as server, server.serving(Router(counter).answer):
            counter.address = server.address
            yield counter

    def store(self, queue: MessageQueue, *messages: StoredMessage) -> None:
        """Put messages into a queue; whoever waits for them gets them."""
        self.records.setdefault((queue.topic, queue.queue_id), []).extend(messages)
        self._grown.set()

    def asked_for(self, kind: type) -> list[object]:
        return [request for request in self.asked if isinstance(request, kind)]

    @handles(PullMessage)
    async def pull(self, request: PullMessage, call: Call) -> PullMessageReply:
        self._note(request)
        if request.queue_offset < self.least:
            return self._reply(ResponseCode.PULL_OFFSET_MOVED, self.least)
        while True:
            held = self.records.get((request.topic, request.queue_id), [])
            found = [one for one in held if one.queue_offset >= request.queue_offset]
            if found:
                some = found[: request.max_msg_nums]
                body = b"".join(encode_record(one) for one in some)
                return self._reply(ResponseCode.SUCCESS, some[-1].queue_offset + 1, body)
            self._grown.clear()
            await self._grown.wait()

    def _reply(self, code: ResponseCode, following: int, body: bytes = b"") -> PullMessageReply:
        return PullMessageReply(
            code=code,
            suggest_which_broker_id=self.suggests,
            next_begin_offset=QueueOffset(following),
            min_offset=QueueOffset(self.least),
            max_offset=QueueOffset(1000),
            messages=body,
        )

    @handles(LockBatch)
    async def lock(self, request: LockBatch, call: Call) -> LockBatchReply:
        self._note(request)
        claim = request.claim
        granted = tuple(
            queue
            for queue in claim.queues
            if self.owners.setdefault(queue, claim.client_id) == claim.client_id
        )
        return LockBatchReply(locked=LockedQueues(queues=granted))

    @handles(UnlockBatch)
    async def unlock(self, request: UnlockBatch, call: Call) -> None:
        self._note(request)
        for queue in request.claim.queues:
            if self.owners.get(queue) == request.claim.client_id:
                del self.owners[queue]

    @handles(SendMessageBack)
    async def take_back(self, request: SendMessageBack, call: Call) -> None:
        self._note(request)

    @handles(SendMessage)
    async def send(self, request: SendMessage, call: Call) -> SendMessageReply:
        self._note(request)
        return SendMessageReply(
            code=ResponseCode.SUCCESS,
            msg_id="7F00000100002A9F0000000000000000",
            queue_id=request.queue_id,
            queue_offset=QueueOffset(0),
        )

    @handles(GetGroupConfig)
    async def group(self, request: GetGroupConfig, call: Call) -> GroupReply:
        self._note(request)
        settings = GroupSettings(name=request.group, max_retries=self.max_retries)
        return GroupReply(settings=settings)

    @handles(CheckClientConfig)
    async def check(self, request: CheckClientConfig, call: Call) -> None:
        self._note(request)


@asynccontextmanager
async def counter_and_session(
    clock: Clock | None = None, **topics: dict[str, int]
) -> AsyncIterator[tuple[Counter, Session]]:
    """Serve, and connect a client; topics by name, each with its queues by broker."""
    async with Counter.serving(**topics) as counter:
        async with Session(counter.address, clock=clock) as session:
            yield counter, session


REFUSED = RequestRejected(ResponseCode.SYSTEM_ERROR, "not now")
