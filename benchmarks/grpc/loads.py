"""What is asked of a gRPC port: sends one by one, and receives of 32 that are acknowledged."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.grpc.wire import CallFailed, Connection, messages

from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.proxy.v2.rpcs import SERVICE

TOPIC: Final = "bench"
GROUP: Final = "bench-group"
BATCH: Final = 32
_METADATA: Final = (
    ("grpc-timeout", "60S"),  # Apache's proxy serves no receive without
    ("x-mq-language", "JAVA"),
    ("x-mq-client-version", "5.1.0"),
    ("x-mq-protocol", "v2"),
    ("x-mq-request-id", "00000000-0000-0000-0000-000000000000"),
    ("x-mq-date-time", "20261117T000000Z"),
)
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Load:
    """So many connections, each with a call at a time."""

    name: str
    kind: str
    connections: int
    body_bytes: int = 1024
    tls: bool = False


LOADS: Final = (
    Load("sends, 64 x 1, 1 KB", "send", 64),
    Load("sends, 64 x 1, 1 KB, TLS", "send", 64, tls=True),
    Load("receives of 32, acknowledged together, 8 x 1, 1 KB", "receive", 8),
)


@dataclass(slots=True)
class Outcome:
    """What was done in how long."""

    messages: int = 0
    seconds: float = 0.0


async def run(address: str, load: Load, seconds: float) -> Outcome:
    """Put a port under a load.

    Raises:
        CallFailed: If it did not answer as it should.
    """
    connections = [
        await Connection.opened(
            address, (("x-mq-client-id", f"bench-{next(_numbers)}"), *_METADATA), tls=load.tls
        )
        for _ in range(load.connections)
    ]
    outcome = Outcome()
    try:
        if load.kind == "receive":
            await asyncio.gather(*map(_settle, connections))
        began = time.perf_counter()
        work = _send if load.kind == "send" else _receive
        until = began + seconds
        counts = await asyncio.gather(*(work(each, load, until) for each in connections))
        outcome.messages, outcome.seconds = sum(counts), time.perf_counter() - began
    finally:
        for each in connections:
            each.close()
    return outcome


async def fill(address: str, count: int, body_bytes: int = 1024) -> None:
    """Send so many messages, in batches: what receives take."""
    connection = await Connection.opened(address, (("x-mq-client-id", "bench-fill"), *_METADATA))
    try:
        for _ in range(0, count, BATCH):
            request = pb.SendMessageRequest(messages=[_message(body_bytes) for _ in range(BATCH)])
            _check(await connection.call(f"/{SERVICE}/SendMessage", request.SerializeToString()))
    finally:
        connection.close()


async def _settle(connection: Connection) -> None:
    """Say what it reads: Apache's proxy serves no receive before."""
    settings = pb.Settings(client_type=pb.SIMPLE_CONSUMER)
    settings.subscription.group.name = GROUP
    entry = settings.subscription.subscriptions.add()
    entry.topic.name = TOPIC
    entry.expression.type, entry.expression.expression = pb.TAG, "*"
    told = pb.TelemetryCommand(settings=settings).SerializeToString()
    await connection.tell(f"/{SERVICE}/Telemetry", told)


async def _send(connection: Connection, load: Load, until: float) -> int:
    count = 0
    # One message all the time: what is made is not what is measured.
    request = pb.SendMessageRequest(messages=[_message(load.body_bytes)]).SerializeToString()
    while time.perf_counter() < until:
        body = await connection.call(f"/{SERVICE}/SendMessage", request)
        if not count:
            _check(body)
        count += 1
    return count


async def _receive(connection: Connection, load: Load, until: float) -> int:
    count = 0
    asked = pb.ReceiveMessageRequest(
        group=pb.Resource(name=GROUP),
        message_queue=pb.MessageQueue(topic=pb.Resource(name=TOPIC), id=-1),
        filter_expression=pb.FilterExpression(type=pb.TAG, expression="*"),
        batch_size=BATCH,
    )
    asked.invisible_duration.FromSeconds(60)
    asked.long_polling_timeout.FromSeconds(5)
    request = asked.SerializeToString()
    while time.perf_counter() < until:
        answers = messages(await connection.call(f"/{SERVICE}/ReceiveMessage", request))
        found = [pb.ReceiveMessageResponse.FromString(each) for each in answers]
        got = [each.message for each in found if each.HasField("message")]
        if not got:
            break  # all were taken
        acks = pb.AckMessageRequest(
            group=asked.group,
            topic=asked.message_queue.topic,
            entries=[
                pb.AckMessageEntry(
                    message_id=each.system_properties.message_id,
                    receipt_handle=each.system_properties.receipt_handle,
                )
                for each in got
            ],
        )
        await connection.call(f"/{SERVICE}/AckMessage", acks.SerializeToString())
        count += len(got)
    return count


def _message(body_bytes: int) -> Any:
    return pb.Message(
        topic=pb.Resource(name=TOPIC),
        system_properties=pb.SystemProperties(
            message_id=f"01{next(_numbers):032X}",
            message_type=pb.NORMAL,
            body_encoding=pb.IDENTITY,
            born_host="bench",
        ),
        body=bytes(body_bytes),
    )


def _check(body: bytes) -> None:
    (answer,) = messages(body)
    status = pb.SendMessageResponse.FromString(answer).status
    if status.code != pb.OK:
        raise CallFailed(f"{pb.Code.Name(status.code)}: {status.message}")
