"""What all calls have in common, and what they may be sent that is none."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from tests.proxy.support.calling import GrpcClient, World, message, named, receiving

from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.proxy.v2.rpcs import RPCS, SERVICE

pytestmark = [pytest.mark.scenario, pytest.mark.asyncio(loop_scope="module")]

UNARY = [rpc for rpc in RPCS if not rpc.takes_stream and not rpc.gives_stream]
STREAMED = [rpc for rpc in RPCS if rpc.gives_stream and not rpc.takes_stream]


def raw(client: GrpcClient, path: str) -> Any:
    """A call of which neither side is read or written as a message."""
    return client.channel.unary_unary(path)


@pytest.mark.parametrize("rpc", UNARY, ids=lambda rpc: rpc.name)
async def test_a_call_without_a_client_id_is_refused_in_its_status(world: World, rpc: Any) -> None:
    nobody = GrpcClient(world.client.channel)
    answer = await nobody.call(rpc.name, rpc.request())
    assert answer.status.code == pb.CLIENT_ID_REQUIRED
    blank = GrpcClient(world.client.channel, {"x-mq-client-id": " "})
    assert (await blank.call(rpc.name, rpc.request())).status.code == pb.CLIENT_ID_REQUIRED


@pytest.mark.parametrize("rpc", STREAMED, ids=lambda rpc: rpc.name)
async def test_a_stream_without_a_client_id_is_refused_in_its_status(
    world: World, rpc: Any
) -> None:
    nobody = GrpcClient(world.client.channel)
    refused, *_ = [each async for each in nobody.stream(rpc.name, rpc.request())]
    assert refused.status.code == pb.CLIENT_ID_REQUIRED


async def test_telemetry_without_a_client_id_ends_as_grpc_has_it(world: World) -> None:
    stream = GrpcClient(world.client.channel).telemetry()
    assert await stream.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "CLIENT_ID_REQUIRED" in await stream.details()


@pytest.mark.parametrize("rpc", UNARY, ids=lambda rpc: rpc.name)
async def test_an_empty_request_is_refused_by_a_code_of_its_own(
    client: GrpcClient, rpc: Any
) -> None:
    answer = await client.call(rpc.name, rpc.request())
    if rpc.name != "NotifyClientTermination":
        assert 40_000 <= answer.status.code < 50_600
        assert answer.status.code not in (pb.INTERNAL_ERROR, pb.INTERNAL_SERVER_ERROR)
    assert answer.status.message


@pytest.mark.parametrize("rpc", RPCS, ids=lambda rpc: rpc.name)
async def test_bytes_that_are_no_message_harm_nobody(
    world: World, client: GrpcClient, rpc: Any
) -> None:
    for junk in (b"\xff" * 40, b"\x0a\xff\xff\xff\xff\x0f", bytes(range(256))):
        with pytest.raises(grpc.aio.AioRpcError):
            await raw(client, rpc.path)(junk, metadata=(("x-mq-client-id", "junk"),), timeout=30)
    answer = await client.call("SyncLiteSubscription", pb.SyncLiteSubscriptionRequest())
    assert answer.status.code == pb.UNSUPPORTED


async def test_a_method_that_is_none_is_not_implemented(client: GrpcClient) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await raw(client, f"/{SERVICE}/Nonsense")(b"")
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_request_beyond_what_the_broker_stores_is_not_read(
    world: World, client: GrpcClient
) -> None:
    topic = await world.topic("huge")
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await client.send(message(topic, b"x" * (5 * 1024 * 1024)))
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_headers_are_bounded(world: World, client: GrpcClient) -> None:
    long = GrpcClient(client.channel, {"x-mq-client-id": "x" * 300})
    answer = await long.call("Heartbeat", pb.HeartbeatRequest())
    assert answer.status.code == pb.REQUEST_HEADER_FIELDS_TOO_LARGE
    endless = await world.another("endless", padding="x" * (48 * 1024))
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await endless.call("Heartbeat", pb.HeartbeatRequest())
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_streams_that_never_end_keep_nobody_from_work(
    world: World, client: GrpcClient
) -> None:
    topic = await world.topic("busy")
    idle = [(await world.another(f"idle-{n}")).telemetry() for n in range(3)]
    idle += [client.telemetry() for _ in range(20)]
    waiting = [
        client.stream("ReceiveMessage", receiving(topic, "busy-g", polling_ms=20_000))
        for _ in range(20)
    ]
    assert (await client.send(message(topic))).status.code == pb.OK
    for stream in (*idle, *waiting):
        stream.cancel()


async def test_clients_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = world.service.sessions
    most = type(sessions._config)(max_clients=len(sessions))
    monkeypatch.setattr(sessions, "_config", most)
    newcomer = await world.another("one-too-many")
    answer = await newcomer.call("Heartbeat", pb.HeartbeatRequest())
    assert answer.status.code == pb.TOO_MANY_REQUESTS
    stream = newcomer.telemetry()
    assert await stream.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_what_nobody_expected_is_an_answer_and_a_line_in_the_log(
    world: World,
    client: GrpcClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = await world.topic("broken")

    async def fails(*_: object) -> None:
        raise ZeroDivisionError("of the test")

    monkeypatch.setattr(world.service._sending, "_outgoing", fails)
    answer = await client.send(message(topic))
    assert answer.status.code == pb.INTERNAL_SERVER_ERROR
    assert "SendMessage" in answer.status.message
    assert "of the test" not in answer.status.message
    assert "of the test" in caplog.text


async def test_lite_topics_are_refused_wherever_they_are_named(client: GrpcClient) -> None:
    changing = pb.ChangeInvisibleDurationRequest(
        group=named("g"), topic=named("t"), lite_topic="small"
    )
    answer = await client.call("ChangeInvisibleDuration", changing)
    assert answer.status.code == pb.UNSUPPORTED
    forward = pb.ForwardMessageToDeadLetterQueueRequest(
        group=named("g"), topic=named("t"), lite_topic="small"
    )
    answer = await client.call("ForwardMessageToDeadLetterQueue", forward)
    assert answer.status.code == pb.UNSUPPORTED


async def test_a_client_that_leaves_gives_back_what_is_renewed_for_it(world: World) -> None:
    topic = await world.topic("renewed")
    leaving, staying = await world.another("leaving"), await world.another("staying")
    await leaving.send(message(topic, b"held"))
    (held,) = await leaving.messages(topic, "renewed-g", auto_renew=True, invisible_ms=None)
    assert held.system_properties.invisible_duration.seconds == 60
    assert len(world.service.receipts) == 1
    waiting = asyncio.create_task(staying.messages(topic, "renewed-g", polling_ms=20_000))
    await leaving.call("NotifyClientTermination", pb.NotifyClientTerminationRequest())
    assert len(world.service.receipts) == 0
    (again,) = await waiting
    assert again.body == b"held"
    assert (await staying.ack(topic, "renewed-g", again)).status.code == pb.OK
