"""A broker with a gRPC port in this process, and a bare client of it: what RPCs answer, no more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import grpc
from tests.guarded import call_headers

from rocketpipe.auth.secret import Secret
from rocketpipe.auth.signature import SigningKey, sign_date
from rocketpipe.broker.broker import Inside, broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.clock import Clock
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.topic import MessageType
from rocketpipe.protocol.command import Sign
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.groups import UpdateAndCreateGroup
from rocketpipe.protocol.requests.topics import UpdateAndCreateTopic
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.front.front import Front
from rocketpipe.proxy.http2.receiver import Unread
from rocketpipe.proxy.local import LocalBackend
from rocketpipe.proxy.server import Listen, grpc_port
from rocketpipe.proxy.service import Service
from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.proxy.v2.rpcs import RPCS
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.config import StoreConfig

BROKER = "broker-a"
_PATHS = {rpc.name: rpc for rpc in RPCS}
_ids = count(1)


@dataclass
class GrpcClient:
    """One client: a channel, and the headers that its calls have."""

    channel: grpc.aio.Channel
    metadata: dict[str, str] = field(default_factory=dict)

    async def call(self, rpc: str, request: Any, *, within_s: float | None = 60) -> Any:
        """Call a method that answers once."""
        kind = _PATHS[rpc]
        method = self.channel.unary_unary(
            kind.path,
            request_serializer=kind.request.SerializeToString,
            response_deserializer=kind.response.FromString,
        )
        return await method(request, metadata=self._headers(), timeout=within_s)

    def stream(self, rpc: str, request: Any, *, within_s: float | None = 60) -> Any:
        """Call a method that answers by a stream."""
        kind = _PATHS[rpc]
        method = self.channel.unary_stream(
            kind.path,
            request_serializer=kind.request.SerializeToString,
            response_deserializer=kind.response.FromString,
        )
        return method(request, metadata=self._headers(), timeout=within_s)

    def telemetry(self) -> Any:
        """Open a telemetry stream."""
        kind = _PATHS["Telemetry"]
        method = self.channel.stream_stream(
            kind.path,
            request_serializer=kind.request.SerializeToString,
            response_deserializer=kind.response.FromString,
        )
        return method(metadata=self._headers())

    def _headers(self) -> tuple[tuple[str, str], ...]:
        return tuple((call_headers() | self.metadata).items())

    async def settled(self, settings: pb.Settings) -> tuple[Any, pb.TelemetryCommand]:
        """Open one and tell settings; gives the stream, and the answer."""
        stream = self.telemetry()
        await stream.write(pb.TelemetryCommand(settings=settings))
        return stream, await stream.read()

    async def send(self, *messages: pb.Message) -> pb.SendMessageResponse:
        """Send messages."""
        return await self.call("SendMessage", pb.SendMessageRequest(messages=messages))

    async def receive(self, topic: str, group: str, **said: Any) -> list[pb.ReceiveMessageResponse]:
        """Receive once; the whole stream."""
        return [
            each async for each in self.stream("ReceiveMessage", receiving(topic, group, **said))
        ]

    async def refused(self, topic: str, group: str, **said: Any) -> pb.ReceiveMessageResponse:
        """Receive once what is refused: why, before the last word of every receive."""
        first, last = await self.receive(topic, group, **said)
        assert last.WhichOneof("content") == "delivery_timestamp"
        return first

    async def messages(self, topic: str, group: str, **said: Any) -> list[pb.Message]:
        """Receive once; the messages alone."""
        answers = await self.receive(topic, group, **said)
        return [each.message for each in answers if each.WhichOneof("content") == "message"]

    async def ack(self, topic: str, group: str, *messages: pb.Message) -> pb.AckMessageResponse:
        """Acknowledge messages."""
        entries = [
            pb.AckMessageEntry(
                message_id=each.system_properties.message_id,
                receipt_handle=each.system_properties.receipt_handle,
            )
            for each in messages
        ]
        return await self.call(
            "AckMessage",
            pb.AckMessageRequest(group=named(group), topic=named(topic), entries=entries),
        )


@dataclass
class World:
    """The servers, and who calls them."""

    address: str
    broker: str
    inside: Inside
    client: GrpcClient
    service: Service
    #: What clients have not taken of what was written to them.
    unread: Unread
    caller: Caller
    stack: AsyncExitStack

    async def ask(self, request: Request[Any]) -> Any:
        """Ask the broker by the other protocol."""
        return await self.caller.call(self.broker, request)

    async def topic(
        self, name: str, kind: MessageType | None = None, *, queues: int = 1, perm: int = 6
    ) -> str:
        """Make a topic."""
        await self.ask(
            UpdateAndCreateTopic(
                topic=name,
                default_topic="TBW102",
                read_queue_nums=queues,
                write_queue_nums=queues,
                perm=perm,
                topic_filter_type="SINGLE_TAG",
                topic_sys_flag=0,
                order=False,
                attributes=f"+message.type={kind.value}" if kind else "",
            )
        )
        return name

    async def group(self, name: str, **settings: Any) -> str:
        """Make a group."""
        await self.ask(UpdateAndCreateGroup(settings=GroupSettings(name=name, **settings)))
        return name

    async def another(self, client_id: str, **metadata: str) -> GrpcClient:
        """One more client, on a connection of its own."""
        channel = grpc.aio.insecure_channel(
            self.address,
            # It takes little that nobody reads, so that a slow reader is one soon.
            options=[("grpc.use_local_subchannel_pool", 1), ("grpc.http2.bdp_probe", 0)],
        )
        self.stack.push_async_callback(channel.close)
        return GrpcClient(channel, {"x-mq-client-id": client_id, **metadata})


@asynccontextmanager
async def grpc_world(
    data: Path,
    *,
    proxy: ProxyConfig | None = None,
    clock: Clock | None = None,
    sign: Sign | None = None,
    listen: Listen | None = None,
    **settings: Any,
) -> AsyncIterator[World]:
    """Run a broker with a gRPC port inside the block."""
    found: list[tuple[str, Inside]] = []
    services: list[Service] = []
    usual = Service.methods

    def noted(service: Service) -> Any:
        services.append(service)
        return usual(service)

    @asynccontextmanager
    async def beside(inside: Inside) -> AsyncIterator[None]:
        backend = LocalBackend(inside)
        brought = listen or Front(None).listen
        async with grpc_port(
            backend, "127.0.0.1", 0, listen=brought, config=proxy, clock=clock
        ) as address:
            found.append((address, inside))
            yield

    config = BrokerConfig(
        data=data, name=BROKER, port=0, store=StoreConfig.embedded(data), **settings
    )
    Service.methods = noted  # type: ignore[method-assign]
    try:
        async with AsyncExitStack() as stack:
            at = await stack.enter_async_context(broker(config, clock=clock, beside=beside))
            caller = await stack.enter_async_context(Caller(sign=sign))
            ((address, inside),) = found
            channel = grpc.aio.insecure_channel(address)
            stack.push_async_callback(channel.close)
            client = GrpcClient(channel, {"x-mq-client-id": "tester"})
            yield World(
                address,
                at,
                inside,
                client,
                services[-1],
                services[-1].readers.unread,
                caller,
                stack,
            )
    finally:
        Service.methods = usual  # type: ignore[method-assign]


def signed(client: GrpcClient, user: str, secret: str, stamp: str | None = None) -> GrpcClient:
    """The same client, as somebody."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ") if stamp is None else stamp
    signature = sign_date(SigningKey(Secret(secret)), stamp)
    return GrpcClient(
        client.channel,
        {
            **client.metadata,
            "x-mq-date-time": stamp,
            "authorization": f"MQv2-HMAC-SHA1 Credential={user}//Rocketmq, "
            f"SignedHeaders=x-mq-date-time, Signature={signature.upper()}",
        },
    )


def named(name: str, namespace: str = "") -> pb.Resource:
    return pb.Resource(name=name, resource_namespace=namespace)


def endpoints() -> pb.Endpoints:
    return pb.Endpoints(scheme=pb.IPv4, addresses=[pb.Address(host="127.0.0.1", port=8081)])


def message(topic: str, body: bytes = b"body", **said: Any) -> pb.Message:
    """A message with an id of its own; times are given in milliseconds."""
    users = said.pop("properties", {})
    namespace = said.pop("namespace", "")
    delivery_ms = said.pop("delivery_ms", None)
    said.setdefault("message_id", f"01{next(_ids):032X}")
    one = pb.Message(
        topic=named(topic, namespace),
        body=body,
        user_properties=users,
        system_properties=pb.SystemProperties(**said),
    )
    if delivery_ms is not None:
        one.system_properties.delivery_timestamp.FromMilliseconds(delivery_ms)
    return one


def receiving(topic: str, group: str, **said: Any) -> pb.ReceiveMessageRequest:
    """A receive of any queue that waits as briefly as is allowed; times in milliseconds."""
    request = pb.ReceiveMessageRequest(
        group=named(group),
        message_queue=pb.MessageQueue(
            topic=named(topic, said.pop("namespace", "")),
            id=said.pop("queue", -1),
            broker=pb.Broker(name=said.pop("broker", BROKER)),
        ),
        batch_size=said.pop("batch", 32),
    )
    if (invisible_ms := said.pop("invisible_ms", 30_000)) is not None:
        request.invisible_duration.FromMilliseconds(invisible_ms)
    if (polling_ms := said.pop("polling_ms", 5000)) is not None:
        request.long_polling_timeout.FromMilliseconds(polling_ms)
    if expression := said.pop("expression", None):
        request.filter_expression.type = said.pop("kind", pb.TAG)
        request.filter_expression.expression = expression
    for name, value in said.items():
        setattr(request, name, value)
    return request


def publishing(*topics: str) -> pb.Settings:
    return pb.Settings(
        client_type=pb.PRODUCER,
        publishing=pb.Publishing(topics=[named(each) for each in topics]),
    )


def subscribing(group: str, *topics: str, kind: int = pb.PUSH_CONSUMER) -> pb.Settings:
    return pb.Settings(
        client_type=kind,
        subscription=pb.Subscription(
            group=named(group),
            subscriptions=[
                pb.SubscriptionEntry(
                    topic=named(each), expression=pb.FilterExpression(type=pb.TAG, expression="*")
                )
                for each in topics
            ],
        ),
    )


def bodies(messages: Iterable[pb.Message]) -> list[bytes]:
    return [each.body for each in messages]


async def eventually(stream: Any) -> Any:
    """The next of a stream, within the patience of a test."""
    async with asyncio.timeout(60):
        return await stream.read()
