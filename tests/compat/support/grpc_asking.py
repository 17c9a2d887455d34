"""One gRPC client, call by call, and the requests that it makes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import grpc
from tests.guarded import call_headers

from rocketpipe.model.topic import MessageType
from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.proxy.v2.rpcs import RPCS, SERVICE

PATIENCE_S: Final = 60.0
#: Topics, by the word that is behind ``t-`` in their names.
TYPES: Final = {
    "normal": MessageType.NORMAL,
    "fifo": MessageType.FIFO,
    "delay": MessageType.DELAY,
    "transaction": MessageType.TRANSACTION,
}
_RPCS: Final = {rpc.name: rpc for rpc in RPCS}


class Asking:
    """A client: its calls, each with what it says of itself."""

    def __init__(self, channel: grpc.aio.Channel, client_id: str, streams: AsyncExitStack) -> None:
        self._channel = channel
        self._streams = streams
        self._facts = [
            ("x-mq-language", "PYTHON"),
            ("x-mq-client-version", "5.0.8"),
            ("x-mq-protocol", "v2"),
        ]
        if client_id:
            self._facts.append(("x-mq-client-id", client_id))

    @property
    def _metadata(self) -> list[tuple[str, str]]:
        return [*self._facts, *call_headers().items()]

    @classmethod
    @asynccontextmanager
    async def connected(cls, address: str, client_id: str) -> AsyncIterator[Asking]:
        """A client inside the block; its streams end with it."""
        most = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        async with grpc.aio.insecure_channel(address, most) as channel:
            async with AsyncExitStack() as streams:
                yield cls(channel, client_id, streams)

    def other(self, client_id: str) -> Asking:
        """Another client, by the same connection."""
        return Asking(self._channel, client_id, self._streams)

    async def call(self, name: str, request: Any, timeout_s: float = PATIENCE_S) -> Any:
        rpc = _RPCS[name]
        stub = self._channel.unary_unary(
            f"/{SERVICE}/{name}",
            request_serializer=rpc.request.SerializeToString,
            response_deserializer=rpc.response.FromString,
        )
        return await stub(request, metadata=self._metadata, timeout=timeout_s)

    async def stream(self, name: str, request: Any, timeout_s: float = PATIENCE_S) -> list[Any]:
        rpc = _RPCS[name]
        stub = self._channel.unary_stream(
            f"/{SERVICE}/{name}",
            request_serializer=rpc.request.SerializeToString,
            response_deserializer=rpc.response.FromString,
        )
        return [each async for each in stub(request, metadata=self._metadata, timeout=timeout_s)]

    @asynccontextmanager
    async def telemetry(self, settings: pb.Settings) -> AsyncIterator[Any]:
        """A stream on which this was said, inside the block; its answers are still to be read."""
        stub = self._channel.stream_stream(
            f"/{SERVICE}/Telemetry",
            request_serializer=pb.TelemetryCommand.SerializeToString,
            response_deserializer=pb.TelemetryCommand.FromString,
        )
        stream = stub(metadata=self._metadata)
        try:
            await stream.write(pb.TelemetryCommand(settings=settings))
            yield stream
        finally:
            stream.cancel()

    async def settle(self, settings: pb.Settings) -> pb.Settings:
        """Open a stream, say this on it, and take the answer; it stays open."""
        stream = await self._streams.enter_async_context(self.telemetry(settings))
        answer = await asyncio.wait_for(stream.read(), PATIENCE_S)
        if answer is grpc.aio.EOF:
            nothing = grpc.aio.Metadata()
            raise grpc.aio.AioRpcError(await stream.code(), nothing, nothing)
        return answer.settings


def topic(word: str) -> pb.Resource:
    return pb.Resource(name=f"t-{word}" if word in TYPES else word)


def endpoints() -> pb.Endpoints:
    return pb.Endpoints(scheme=pb.IPv4, addresses=[pb.Address(host="127.0.0.1", port=8081)])


_ids = iter(range(1, 1 << 30))


def message(
    word: str = "normal", kind: int = pb.NORMAL, body: bytes = b"body", **system: Any
) -> Any:
    properties = pb.SystemProperties(
        message_id=system.pop("message_id", f"01{next(_ids):032X}"),
        message_type=kind,
        body_encoding=pb.IDENTITY,
        born_host="here",
    )
    properties.born_timestamp.GetCurrentTime()
    user = system.pop("user", {})
    after_s = system.pop("after_s", None)
    if after_s is not None:
        properties.delivery_timestamp.FromMilliseconds(int((time.time() + after_s) * 1000))
    for name, value in system.items():
        if name == "keys":
            properties.keys.extend(value)
        else:
            setattr(properties, name, value)
    return pb.Message(
        topic=topic(word), user_properties=user, system_properties=properties, body=body
    )


def sending(*messages: Any) -> Any:
    return pb.SendMessageRequest(messages=messages)


def receiving(word: str, group: str, **more: Any) -> Any:
    request = pb.ReceiveMessageRequest(
        group=pb.Resource(name=group),
        message_queue=pb.MessageQueue(
            topic=topic(word), id=more.pop("queue", -1), permission=pb.READ_WRITE
        ),
        filter_expression=pb.FilterExpression(
            type=more.pop("kind", pb.TAG), expression=more.pop("expression", "*")
        ),
        batch_size=more.pop("batch", 4),
        auto_renew=more.pop("auto_renew", False),
    )
    if (hidden_s := more.pop("hidden_s", 30)) is not None:
        request.invisible_duration.FromMilliseconds(int(hidden_s * 1000))
    if (wait_s := more.pop("wait_s", 5)) is not None:
        request.long_polling_timeout.FromMilliseconds(int(wait_s * 1000))
    assert not more
    return request


def code(status: Any) -> str:
    return pb.Code.Name(status.code) if status.code in pb.Code.values() else str(status.code)


def subscribing(group: str, kind: int = pb.SIMPLE_CONSUMER, word: str = "normal") -> pb.Settings:
    settings = pb.Settings(client_type=kind)
    settings.subscription.group.name = group
    entry = settings.subscription.subscriptions.add()
    entry.topic.CopyFrom(topic(word))
    entry.expression.type, entry.expression.expression = pb.TAG, "*"
    return settings


def publishing(*words: str) -> pb.Settings:
    settings = pb.Settings(client_type=pb.PRODUCER)
    settings.publishing.topics.extend(topic(word) for word in words)
    return settings
