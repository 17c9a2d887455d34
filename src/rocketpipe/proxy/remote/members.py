"""The gRPC clients of this process, as brokers are told of them: as one member of one session.

A connection stands for one member of a group at a broker, and all gRPC clients share those of this
process. So brokers know this process as the producer and consumer of all that they do
together; what a broker asks of it goes on to one of the clients that are meant.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeVar

import msgspec

from rocketpipe.errors import RecordError, RequestRejected, RocketPipeError
from rocketpipe.model.properties import PRODUCER_GROUP
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.callbacks import (
    CheckTransactionState,
    NotifyConsumerIdsChanged,
    ResetConsumerClientOffset,
)
from rocketpipe.protocol.requests.clients import ConsumerData, HeartbeatData
from rocketpipe.protocol.requests.running import (
    ClientOffsets,
    ClientOffsetsReply,
    ConsumeDirectly,
    ConsumeDirectlyReply,
    GetClientOffsets,
    GetRunningInfo,
    RunningInfoReply,
)
from rocketpipe.proxy.backend import Client
from rocketpipe.record.codec import RecordView
from rocketpipe.remoting.router import Call, handles

log = logging.getLogger(__name__)

ReplyT = TypeVar("ReplyT")

#: A client has so long for what a broker asks of it; brokers wait a little longer.
ANSWER_MS: Final = 5000


class GrpcMembers:
    """Who is there, what they do together, and who of them is asked."""

    def __init__(self) -> None:
        #: The one that was heard of last comes last.
        self._clients: dict[Client, HeartbeatData] = {}
        self._produced: dict[str, dict[Client, None]] = {}
        self._consumed: dict[str, dict[Client, ConsumerData]] = {}

    def __len__(self) -> int:
        return len(self._clients)

    def beat(self, client: Client, data: HeartbeatData) -> bool:
        """Note what a client does; True if brokers are to be told at once."""
        if self._clients.get(client) == data:
            return False
        news = any(each.group_name not in self._produced for each in data.producers)
        for consumer in data.consumers:
            others = self._consumed.get(consumer.group_name)
            news = news or others is None or next(reversed(others.values())) != consumer
        self._forget(client)
        self._clients[client] = data
        for producer in data.producers:
            self._produced.setdefault(producer.group_name, {})[client] = None
        for consumer in data.consumers:
            self._consumed.setdefault(consumer.group_name, {})[client] = consumer
        return news

    def leave(self, client: Client) -> tuple[set[str], set[str]]:
        """Forget a client: the groups for which nobody produces, or consumes, any more."""
        before = set(self._produced), set(self._consumed)
        self._forget(client)
        return before[0] - set(self._produced), before[1] - set(self._consumed)

    # What the session is told

    def producer_groups(self) -> Sequence[str]:
        return list(self._produced)

    def consumers(self) -> Sequence[ConsumerData]:
        return [_together(list(clients.values())) for clients in self._consumed.values()]

    def topics(self) -> Collection[str]:
        wanted = {each.topic for consumer in self.consumers() for each in consumer.subscriptions}
        return wanted | set(self._produced)  # a producer's group is called like its topic

    def on_ids_changed(self, group: str) -> None:
        """Nothing: who pops shares no queues out."""

    def on_routes_changed(self, topic: str) -> None:
        """Nothing: routes are asked for with each call."""

    # Who is asked

    def producer_of(self, group: str) -> Client | None:
        """A producer of this group, another one each time."""
        return _next(self._produced.get(group))

    def consumer_of(self, group: str) -> Client | None:
        """A consumer of this group, another one each time."""
        return _next(self._consumed.get(group))

    def _forget(self, client: Client) -> None:
        data = self._clients.pop(client, None)
        if data is None:
            return
        for producer in data.producers:
            _drop(self._produced, producer.group_name, client)
        for consumer in data.consumers:
            _drop(self._consumed, consumer.group_name, client)


class MemberCallbacks:
    """Hands what brokers ask of this process to a client that it concerns."""

    def __init__(self, members: GrpcMembers, name_of: Callable[[str], str | None]) -> None:
        """``name_of`` gives the name of the broker at an address."""
        self._members = members
        self._name_of = name_of

    @handles(CheckTransactionState)
    async def check_transaction(self, request: CheckTransactionState, call: Call) -> None:
        try:
            group = RecordView(request.message).properties.get(PRODUCER_GROUP, "")
        except RecordError as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
        client = self._members.producer_of(group)
        if client is None:
            log.warning(
                "nobody here knows of a transaction peer=%s group=%s", call.peer.address, group
            )
            return
        name = request.broker_name or self._name_of(call.peer.address)
        try:
            client.tell(dataclasses.replace(request, broker_name=name))
        except RocketPipeError as error:  # the broker asks again
            log.debug("transaction not asked about group=%s reason=%s", group, error)

    @handles(GetRunningInfo)
    async def running_info(self, request: GetRunningInfo, call: Call) -> RunningInfoReply:
        return await self._asked(request.consumer_group, request)

    @handles(ConsumeDirectly)
    async def consume_directly(self, request: ConsumeDirectly, call: Call) -> ConsumeDirectlyReply:
        return await self._asked(request.consumer_group, request)

    @handles(GetClientOffsets)
    async def offsets(self, request: GetClientOffsets, call: Call) -> ClientOffsetsReply:
        return ClientOffsetsReply(place=ClientOffsets(offsets={}))  # brokers keep them

    @handles(NotifyConsumerIdsChanged)
    async def ids_changed(self, request: NotifyConsumerIdsChanged, call: Call) -> None:
        """Nothing: who pops shares no queues out."""

    @handles(ResetConsumerClientOffset)
    async def reset(self, request: ResetConsumerClientOffset, call: Call) -> None:
        """Nothing: brokers keep the offsets of who pops."""

    async def _asked(self, group: str, request: Request[ReplyT]) -> ReplyT:
        client = self._members.consumer_of(group)
        if client is None:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"The Consumer Group <{group}> not exist in this proxy"
            )
        return await client.answer(request, ANSWER_MS)


def _together(members: Sequence[ConsumerData]) -> ConsumerData:
    """What the members of a group want together; of one topic what was said last."""
    last = members[-1]
    wanted = {each.topic: each for member in members for each in member.subscriptions}
    return msgspec.structs.replace(
        last, subscriptions=tuple(wanted[name] for name in sorted(wanted))
    )


def _next(clients: dict[Client, ReplyT] | None) -> Client | None:
    if not clients:
        return None
    client = next(iter(clients))
    clients[client] = clients.pop(client)  # its next turn comes behind the others'
    return client


def _drop(table: dict[str, dict[Client, ReplyT]], group: str, client: Client) -> None:
    clients = table.get(group)
    if clients is not None:
        clients.pop(client, None)
        if not clients:
            del table[group]
