"""The brokers of a cluster, RocketPipe's or Apache's, behind a gRPC port in another process.

What the service asks goes on by the client's own parts: its routes, leaders, connections and
heartbeats. Brokers know this process as one client (see ``members``) and by one user, if they have
access control: that of its session. So who comes to this process is judged here, by users and
rights of its own.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.gate import Gate
from rocketpipe.auth.needs import Surroundings
from rocketpipe.client.admin.fleet import Fleet, NoBroker
from rocketpipe.client.session import Session
from rocketpipe.clock import Clock
from rocketpipe.errors import NoRoute, RecordError, RequestRejected, RocketPipeError
from rocketpipe.model import properties as well_known
from rocketpipe.model.flags import Transaction, transaction_of
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.route import MessageQueue, TopicRoute
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.clients import Heartbeat, HeartbeatData
from rocketpipe.protocol.requests.groups import GetGroupConfig
from rocketpipe.protocol.requests.lookups import ViewMessageById
from rocketpipe.protocol.requests.routes import GetRouteInfoByTopic
from rocketpipe.protocol.requests.sending import SendMessage, SendMessageBack
from rocketpipe.protocol.requests.topics import GetTopicConfig
from rocketpipe.protocol.requests.transactions import EndTransaction
from rocketpipe.proxy.backend import Client
from rocketpipe.proxy.remote.lookups import Lookups
from rocketpipe.proxy.remote.members import GrpcMembers, MemberCallbacks
from rocketpipe.record.codec import RecordView
from rocketpipe.record.real_topic import real_topic
from rocketpipe.remoting.tls_settings import TlsSettings

ReplyT = TypeVar("ReplyT")

#: What brokers take at the most unless they are told otherwise: RocketMQ's maxMessageSize.
MAX_BODY_BYTES: Final = 4 << 20
#: A client that is new is served after so long, whether all brokers have heard of it or not.
TELLING_S: Final = 1.0


class ProxySession(Session):
    """A client of the cluster that stands for all gRPC clients of this process."""

    def __init__(
        self,
        name_servers: str,
        members: GrpcMembers,
        *,
        clock: Clock | None = None,
        tls: bool | TlsSettings | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        """Prepare it; without ``credentials`` the environment says by which user it is known."""
        self._grpc = members  # what brokers ask is answered by it
        super().__init__(
            name_servers,
            clock=clock,
            unit="grpc-proxy",
            tls=tls,
            access_key=None if credentials is None else credentials.access_key,
            secret_key=None if credentials is None else credentials.secret,
        )

    def name_of(self, address: str) -> str | None:
        """The name of the broker that is at an address, if it is known."""
        for name, broker in self.routes.brokers().items():
            if address in broker.addresses.values():
                return name
        return None

    async def unregister(self, produced: set[str], consumed: set[str]) -> None:
        """Tell brokers that nobody here produces or consumes for these groups any more."""
        if produced or consumed:
            await self._heartbeats.unregister(produced, consumed)

    def _callbacks(self) -> object:
        return MemberCallbacks(self._grpc, self.name_of)


class RemoteBackend:
    """What the gRPC service asks, asked of a cluster; made by `opened`."""

    checks_message_types = True

    def __init__(
        self,
        session: ProxySession,
        members: GrpcMembers,
        max_body_bytes: int = MAX_BODY_BYTES,
        gate: Gate | None = None,
    ) -> None:
        """``gate`` says who is let in, and what they may do; without one everybody is."""
        self._session = session
        self._gate = gate
        self._members = members
        self._fleet = Fleet(session)
        self.max_body_bytes = max_body_bytes
        self._topics = Lookups(self._ask_topic, session.clock)
        self._groups = Lookups(self._ask_group, session.clock)
        self._telling: set[asyncio.Task[None]] = set()

    @classmethod
    @asynccontextmanager
    async def opened(
        cls,
        name_servers: str,
        *,
        clock: Clock | None = None,
        tls: bool | TlsSettings | None = None,
        max_body_bytes: int = MAX_BODY_BYTES,
        gate: Gate | None = None,
        credentials: Credentials | None = None,
    ) -> AsyncIterator[RemoteBackend]:
        """A backend of the cluster of these NameServers, inside the block.

        Brokers know it by ``credentials``, or by what the environment says.

        Raises:
            ValueError: If they are no list such as ``a:9876;b:9876``.
            ConfigError: If the environment says of TLS or users what has no sense.
        """
        members = GrpcMembers()
        asking = ProxySession(name_servers, members, clock=clock, tls=tls, credentials=credentials)
        async with asking as session:
            session.join(members)
            yield cls(session, members, max_body_bytes, gate)

    async def brokers(self) -> int:
        """How many brokers have a leader now, to say whether there is anybody to ask.

        Raises:
            RocketPipeError: If no NameServer answers, or knows none.
        """
        return len(await self._fleet.leaders())

    # What the service asks

    def admit(self, metadata: Mapping[str, str], address: str, rpc: str) -> Any:
        gate = self._gate
        return None if gate is None else gate.admit_call(metadata, address, rpc)

    async def route(self, topic: str, by: Any) -> TopicRoute:
        if self._gate is not None:
            self._gate.allow(by, GetRouteInfoByTopic(topic=topic))
        try:
            return await self._session.routes.get(topic)
        except NoRoute as error:
            raise RequestRejected(ResponseCode.TOPIC_NOT_EXIST, str(error)) from error

    async def topic(self, name: str) -> TopicSettings | None:
        return await self._topics.get(name)

    async def group(self, name: str) -> GroupSettings:
        return await self._groups.get(name) or GroupSettings(name=name)

    async def ask(
        self, broker: str, request: Request[ReplyT], client: Client, by: Any, timeout_ms: int
    ) -> ReplyT:
        session = self._session
        if self._gate is not None:
            self._gate.allow(by, request, await self._around(broker, request, timeout_ms))
        if isinstance(request, SendMessage):
            request = cast("Request[ReplyT]", _as_others_want_it(request))
        topic = getattr(request, "topic", None)
        if topic is not None and _names(session.routes.remembered(topic), broker):
            queue = MessageQueue(topic=topic, broker_name=broker, queue_id=0)
            try:
                return await session.leaders.ask(queue, request, timeout_ms)
            except NoRoute as error:
                raise RequestRejected(ResponseCode.BROKER_NOT_EXIST, str(error)) from error
        # A topic of retries, or a request without a topic: whichever broker has the name.
        return await session.caller.call(await self._leader(broker), request, timeout_ms)

    async def beat(self, client: Client, data: HeartbeatData, by: Any) -> None:
        if self._gate is not None:
            self._gate.allow(by, Heartbeat(data=data))
        if not self._members.beat(client, data):
            return
        for topic in {
            *(producer.group_name for producer in data.producers),
            *(each.topic for consumer in data.consumers for each in consumer.subscriptions),
        }:
            try:
                await self._session.routes.get(topic)  # its brokers are told
            except RocketPipeError:
                continue  # or when it is found
        # A broker that is out of reach is told when it is back; nobody waits for it.
        telling = asyncio.ensure_future(self._session.beat())
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)
        await asyncio.wait([telling], timeout=TELLING_S)

    async def leave(self, client: Client) -> None:
        await self._session.unregister(*self._members.leave(client))

    async def _around(
        self, broker: str, request: Request[Any], timeout_ms: int
    ) -> Surroundings | None:
        """What is known of a message that is named by its place: the topic that it is really of.

        Raises:
            RocketPipeError: If the broker does not answer: then nobody is let through.
        """
        assert self._gate is not None, "nobody is judged"
        if isinstance(request, EndTransaction):
            place = request.commit_log_offset
        elif isinstance(request, SendMessageBack):
            place = request.offset
        else:
            return None
        address = await self._leader(broker)
        try:
            asked = ViewMessageById(offset=place)
            reply = await self._session.caller.call(address, asked, timeout_ms)
            topic = real_topic(RecordView(reply.message))
        except (RequestRejected, RecordError, ValueError):
            return None  # there is no such message: the broker says so too
        return replace(self._gate.around, topic_at={int(place): topic}.get)

    # Whom it asks

    async def _leader(self, broker: str) -> str:
        known = self._session.routes.brokers().get(broker)
        if known is not None and known.leader is not None:
            return known.leader
        try:
            return (await self._fleet.leaders(broker=broker))[broker]
        except NoBroker as error:
            raise RequestRejected(ResponseCode.BROKER_NOT_EXIST, str(error)) from error

    async def _ask_topic(self, name: str) -> TopicSettings | None:
        try:
            route = await self._session.routes.get(name)
        except NoRoute:
            return None
        broker = next((each for each in route.brokers if each.readable), None)
        if broker is None or broker.readable is None:
            return None
        try:
            reply = await self._session.caller.call(broker.readable, GetTopicConfig(topic=name))
        except RequestRejected:  # it is gone there, or the broker is older than message types
            return None
        return reply.details

    async def _ask_group(self, name: str) -> GroupSettings | None:
        failure: RocketPipeError | None = None
        for address in (await self._fleet.leaders()).values():
            try:
                reply = await self._session.caller.call(address, GetGroupConfig(group=name))
            except RequestRejected:
                continue  # it has no such group
            except RocketPipeError as error:
                failure = error
                continue
            return reply.settings
        if failure is not None:
            raise failure
        return None


def _as_others_want_it(request: SendMessage) -> SendMessage:
    """A half message with its producer's group, which Apache's brokers look for in it."""
    if transaction_of(request.sys_flag) is not Transaction.PREPARED:
        return request
    named = well_known.edited(
        request.properties.encode(), {well_known.PRODUCER_GROUP: request.producer_group}
    )
    return dataclasses.replace(request, properties=named.decode())


def _names(route: TopicRoute | None, broker: str) -> bool:
    return route is not None and route.broker(broker) is not None
