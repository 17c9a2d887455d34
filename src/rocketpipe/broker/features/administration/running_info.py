"""Answers about clients that are connected; some of them only the client itself can give."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, TypeVar, cast

from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.consumer_group import Client
from rocketpipe.broker.tables.groups import GroupTable
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.clock import Clock
from rocketpipe.errors import CallTimeout, InvalidName, RequestRejected, RocketPipeError, StoreError
from rocketpipe.model.ids import OffsetId
from rocketpipe.protocol.codes import PeerVersion, RequestCode, ResponseCode
from rocketpipe.protocol.fields import I32, raw_body, wire
from rocketpipe.protocol.request import Request, request
from rocketpipe.protocol.requests.running import (
    AllProducersReply,
    ClientConnection,
    ClientOffsets,
    ClientOffsetsReply,
    ConsumeDirectly,
    ConsumerConnections,
    ConsumerConnectionsReply,
    GetAllProducers,
    GetClientOffsets,
    GetConsumerConnections,
    GetOffsetsOfClients,
    GetProducerConnections,
    GetRunningInfo,
    ProducerConnections,
    ProducerConnectionsReply,
    ProducerInfo,
    ProducersByGroup,
)
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.remoting.router import Call, handles
from rocketpipe.store.message_store import MessageStore

#: How long a client may take for what it is asked, and for one message that it is given.
ANSWER_MS: Final = 5_000
RELAY_MS: Final = 10_000
_ASKED_AT_ONCE: Final = 32

ReplyT = TypeVar("ReplyT")


class ConnectionHandlers:
    """Lists who is connected."""

    def __init__(self, clients: ClientTable, clock: Clock) -> None:
        self._clients = clients
        self._clock = clock

    @handles(GetConsumerConnections)
    async def consumers(
        self, request: GetConsumerConnections, call: Call
    ) -> ConsumerConnectionsReply:
        group = self._clients.consumer_group(request.consumer_group)
        if group is None:
            raise RequestRejected(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"the consumer group[{request.consumer_group}] not online",
            )
        return ConsumerConnectionsReply(
            group=ConsumerConnections(
                connections=tuple(_connection(member.client) for member in group.members()),
                subscriptions=dict(group.subscriptions()),
                consume_type=group.consume_type,
                message_model=group.model,
                consume_from_where=group.from_where,
            )
        )

    @handles(GetProducerConnections)
    async def producers(
        self, request: GetProducerConnections, call: Call
    ) -> ProducerConnectionsReply:
        found = self._clients.producers(request.producer_group)
        if not found:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"the producer group[{request.producer_group}] not exist"
            )
        connections = tuple(_connection(client) for client in found)
        return ProducerConnectionsReply(group=ProducerConnections(connections=connections))

    @handles(GetAllProducers)
    async def all_producers(self, request: GetAllProducers, call: Call) -> AllProducersReply:
        # Heartbeats are noted by the clock that nobody sets; others want to see the time of day.
        now_ms, beats_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        groups = {
            group: tuple(
                ProducerInfo(
                    client_id=member.client.client_id,
                    remote_address=_address(member.client),
                    language=member.client.language,
                    version=member.client.version,
                    last_update_timestamp=now_ms - (beats_ms - member.beat_ms),
                )
                for member in members
            )
            for group, members in self._clients.producers_by_group().items()
        }
        return AllProducersReply(producers=ProducersByGroup(groups=groups))


@dataclass(frozen=True, slots=True, kw_only=True)
class AsItCame:
    """A client's answer, which is passed on as it is: clients differ in what they tell."""

    body: bytes = raw_body(default=b"")


@request(RequestCode.GET_CONSUMER_RUNNING_INFO)
@dataclass(frozen=True, slots=True, kw_only=True)
class _RunningInfoOf(Request[AsItCame]):
    """What `GetRunningInfo` asks, passed on."""

    consumer_group: str
    client_id: str
    jstack_enable: bool | None = None


@request(RequestCode.CONSUME_MESSAGE_DIRECTLY)
@dataclass(frozen=True, slots=True, kw_only=True)
class _ConsumeDirectlyAt(Request[AsItCame]):
    """What `ConsumeDirectly` asks, passed on with the message."""

    consumer_group: str
    client_id: str
    msg_id: str
    of_broker: str = wire("brokerName")
    topic: str | None = None
    topic_sys_flag: I32 | None = None
    group_sys_flag: I32 | None = None
    message: bytes = raw_body()


class RelayHandlers:
    """Passes on to a consumer what only it can answer."""

    def __init__(
        self,
        clients: ClientTable,
        store: MessageStore,
        topics: TopicTable,
        groups: GroupTable,
        broker_name: str,
    ) -> None:
        self._clients = clients
        self._store = store
        self._topics = topics
        self._groups = groups
        self._broker_name = broker_name

    @handles(GetRunningInfo)
    async def running_info(self, request: GetRunningInfo, call: Call) -> AsItCame:
        client = self._client(request.consumer_group, request.client_id)
        return await _ask(
            request.consumer_group,
            client,
            _RunningInfoOf(
                consumer_group=request.consumer_group,
                client_id=request.client_id,
                jstack_enable=request.jstack_enable,
            ),
            RELAY_MS,
        )

    @handles(ConsumeDirectly)
    async def consume(self, request: ConsumeDirectly, call: Call) -> AsItCame:
        client = self._client(request.consumer_group, request.client_id or "")
        msg_id = request.msg_id or ""
        try:
            record = self._store.record_at(OffsetId.parse(msg_id).log_offset)
        except InvalidName as error:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER, f"msgId is an offset id: {error}"
            ) from error
        except StoreError as error:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"can not find message {msg_id[:80]}: {error}"
            ) from error
        topic = self._topics.get(request.topic or "")
        group = self._groups.get(request.consumer_group)
        return await _ask(
            request.consumer_group,
            client,
            _ConsumeDirectlyAt(
                consumer_group=request.consumer_group,
                client_id=client.client_id,
                msg_id=msg_id,
                of_broker=self._broker_name,
                topic=request.topic,
                topic_sys_flag=topic.sys_flag if topic else None,
                group_sys_flag=group.sys_flag if group else None,
                message=record,
            ),
            RELAY_MS,
        )

    @handles(GetOffsetsOfClients)
    async def offsets(self, request: GetOffsetsOfClients, call: Call) -> ClientOffsetsReply:
        """Those who do not answer are left out; if nobody does, the first reason is given."""
        members = self._clients.consumer_group(request.group)
        if members is None:
            raise RequestRejected(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"No Any Consumer online in the consumer group: [{request.group}]",
            )
        wanted = (request.client_addr or "").strip()
        asked = [
            member.client
            for member in members.members()
            if not wanted or member.client.client_id == wanted
        ]
        if not asked:
            raise RequestRejected(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"The Consumer <{request.group}> <{wanted[:80]}> not online",
            )
        question = GetClientOffsets(topic=request.topic, group=request.group)
        found: dict[str, ClientOffsets] = {}
        failed: list[RequestRejected] = []
        for at in range(0, len(asked), _ASKED_AT_ONCE):
            some = asked[at : at + _ASKED_AT_ONCE]
            replies = await asyncio.gather(
                *(_ask(request.group, client, question, ANSWER_MS) for client in some),
                return_exceptions=True,
            )
            for client, reply in zip(some, replies, strict=True):
                if isinstance(reply, RequestRejected):
                    failed.append(reply)
                elif isinstance(reply, BaseException):
                    raise reply
                else:
                    found[client.client_id] = reply.place
        if failed and not found:
            raise failed[0]
        by_client = {client_id: place.offsets for client_id, place in found.items()}
        return ClientOffsetsReply(place=ClientOffsets(by_client=by_client))

    def _client(self, group: str, client_id: str) -> Client:
        members = self._clients.consumer_group(group)
        for member in members.members() if members else ():
            if member.client.client_id == client_id:
                break
        else:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id[:80]}> not online"
            )
        if member.client.version < PeerVersion.V3_1_8_SNAPSHOT:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"The Consumer <{client_id}> Version <{member.client.version}> too low to finish, "
                "please upgrade it to V3_1_8_SNAPSHOT",
            )
        return member.client


async def _ask(group: str, client: Client, question: Request[ReplyT], timeout_ms: int) -> ReplyT:
    peer = cast("PeerConnection", client.connection)
    try:
        return await peer.call(question, timeout_ms)
    except RequestRejected:
        raise  # its own words
    except CallTimeout as error:
        raise RequestRejected(
            ResponseCode.CONSUME_MSG_TIMEOUT,
            f"consumer <{group}> <{client.client_id}> Timeout: {error}",
        ) from error
    except RocketPipeError as error:
        raise RequestRejected(
            ResponseCode.SYSTEM_ERROR,
            f"invoke consumer <{group}> <{client.client_id}> Exception: {error}",
        ) from error


def _connection(client: Client) -> ClientConnection:
    return ClientConnection(
        client_id=client.client_id,
        client_addr=_address(client),
        language=client.language,
        version=client.version,
    )


def _address(client: Client) -> str:
    return cast("PeerConnection", client.connection).address
