"""A NameServer, a broker, and clients on sockets of their own that note what they are told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE_S

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.clock import Clock
from rocketpipe.errors import RequestRejected
from rocketpipe.model.route import TopicRoute
from rocketpipe.model.subscription import Subscription
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.callbacks import NotifyConsumerIdsChanged
from rocketpipe.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData
from rocketpipe.protocol.requests.routes import GetRouteInfoByTopic
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.store.config import StoreConfig


class Member:
    """A client with a connection of its own."""

    def __init__(self, broker_address: str, client_id: str = "client") -> None:
        self.broker = broker_address
        self.client_id = client_id
        self.caller = Caller(Router(self).answer)
        self._told: asyncio.Queue[str] = asyncio.Queue()

    @handles(NotifyConsumerIdsChanged)
    async def changed(self, request: NotifyConsumerIdsChanged, call: Call) -> None:
        assert call.command.is_oneway
        self._told.put_nowait(request.consumer_group)

    async def told(self) -> str:
        """The group of the next notification, which must come."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._told.get()

    @property
    def told_more(self) -> bool:
        return not self._told.empty()

    async def ask(self, request: Request[Any]) -> Any:
        return await self.caller.call(self.broker, request, PATIENCE_S * 1000)

    async def refusal(self, request: Request[Any]) -> tuple[int, str]:
        """Code and remark with which the broker refuses."""
        try:
            await self.ask(request)
        except RequestRejected as refused:
            return refused.code, refused.remark
        raise AssertionError(f"not refused: {request}")

    async def join(self, group: str = "g", topic: str = "t", **more: Any) -> Any:
        consumer = ConsumerData(
            group_name=group, subscriptions=(Subscription(topic=topic, expression="*"),), **more
        )
        data = HeartbeatData(client_id=self.client_id, consumers=(consumer,))
        return await self.ask(Heartbeat(data=data))


@dataclass(frozen=True)
class Servers:
    """Where they listen."""

    name_server: str
    broker: str

    @asynccontextmanager
    async def member(self, client_id: str = "client") -> AsyncIterator[Member]:
        member = Member(self.broker, client_id)
        async with member.caller:
            yield member

    async def route(self, topic: str) -> TopicRoute | None:
        """What the NameServer says of a topic, if it knows it."""
        async with Caller() as caller:
            try:
                reply = await caller.call(self.name_server, GetRouteInfoByTopic(topic=topic))
            except RequestRejected as refused:
                if refused.code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
                return None
            return reply.route


@asynccontextmanager
async def both_servers(
    data: Path, *, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[Servers]:
    """Run both in this process, on free ports."""
    async with name_server(NamesrvConfig(port=0)) as names:
        store = StoreConfig.embedded(data)
        config = BrokerConfig(data=data, name_servers=(names,), port=0, store=store, **settings)
        async with broker(config, clock=clock) as address:
            yield Servers(names, address)
