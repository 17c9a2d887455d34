from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from tests.proxy.support.calling import (
    GrpcClient,
    World,
    eventually,
    message,
    named,
    publishing,
    subscribing,
)
from tests.waiting import until

from rocketpipe.model.group import ExponentialRetry, RetryPolicy, RetryPolicyType
from rocketpipe.model.ids import offset_id
from rocketpipe.protocol.requests.clients import GetConsumerListByGroup
from rocketpipe.protocol.requests.running import (
    ConsumeDirectly,
    DirectOutcome,
    GetConsumerConnections,
    GetProducerConnections,
    GetRunningInfo,
)
from rocketpipe.proxy.v2 import messaging_pb2 as pb

pytestmark = [pytest.mark.scenario, pytest.mark.asyncio(loop_scope="module")]


@asynccontextmanager
async def settled(
    client: GrpcClient, settings: pb.Settings
) -> AsyncIterator[tuple[Any, pb.TelemetryCommand]]:
    stream, answer = await client.settled(settings)
    try:
        yield stream, answer
    finally:
        stream.cancel()


async def test_a_producer_is_told_what_it_may_send(world: World) -> None:
    client = await world.another("producer-1")
    await world.topic("told")
    async with settled(client, publishing("told", "")) as (_, answer):
        assert answer.status.code == pb.OK
        told = answer.settings
        assert told.publishing.max_body_size == 4 * 1024 * 1024
        assert told.publishing.validate_message_type
        assert [topic.name for topic in told.publishing.topics] == ["told", ""]
        assert told.backoff_policy.max_attempts == 3
        assert told.backoff_policy.exponential_backoff.multiplier == 2
        assert not told.metric.on
        connected = await world.ask(GetProducerConnections(producer_group="told"))
        assert [each.client_id for each in connected.group.connections] == ["producer-1"]


async def test_a_consumer_is_told_its_groups_policy(world: World) -> None:
    client = await world.another("consumer-1")
    async with settled(client, subscribing("policy-g", "t")) as (_, answer):
        told = answer.settings
        assert told.backoff_policy.max_attempts == 17
        delays = [each.seconds for each in told.backoff_policy.customized_backoff.next]
        assert (len(delays), delays[0], delays[-1]) == (18, 1, 7200)
        assert told.subscription.receive_batch_size == 32
        assert told.subscription.long_polling_timeout.seconds == 20
        assert not told.subscription.fifo
        assert told.subscription.group.name == "policy-g"


async def test_growing_waits_and_order_are_told(world: World) -> None:
    policy = RetryPolicy(
        type=RetryPolicyType.EXPONENTIAL,
        exponential=ExponentialRetry(initial=1500, limit=9000, multiplier=3),
    )
    await world.group("growing-g", ordered=True, max_retries=4, retry_policy=policy)
    client = await world.another("consumer-2")
    async with settled(client, subscribing("growing-g", "t")) as (_, answer):
        told = answer.settings
        growing = told.backoff_policy.exponential_backoff
        assert told.backoff_policy.max_attempts == 5
        assert (growing.initial.seconds, growing.initial.nanos) == (1, 500_000_000)
        assert (growing.max.seconds, growing.multiplier) == (9, 3)
        assert told.subscription.fifo


async def test_members_come_stay_and_go(world: World) -> None:
    client = await world.another("member-1")
    beat = pb.HeartbeatRequest(group=named("members-g"), client_type=pb.PUSH_CONSUMER)
    assert (await client.call("Heartbeat", beat)).status.code == pb.UNRECOGNIZED_CLIENT_TYPE
    async with settled(client, subscribing("members-g", "t1", "t2")):
        assert (await client.call("Heartbeat", beat)).status.code == pb.OK
        members = await world.ask(GetConsumerListByGroup(consumer_group="members-g"))
        assert members.members.consumer_ids == ("member-1",)
        told = await world.ask(GetConsumerConnections(consumer_group="members-g"))
        assert set(told.group.subscriptions) >= {"t1", "t2"}
        over = pb.NotifyClientTerminationRequest(group=named("members-g"))
        assert (await client.call("NotifyClientTermination", over)).status.code == pb.OK
        assert not world.inside.core().connected.members("members-g")
    assert (await client.call("Heartbeat", beat)).status.code == pb.UNRECOGNIZED_CLIENT_TYPE


@pytest.mark.parametrize(
    "settings",
    [
        pb.Settings(client_type=pb.PRODUCER),
        publishing("no good"),
        subscribing("no good", "t"),
        subscribing("g", "no good"),
        subscribing("CID_RMQ_SYS_x", "t"),
        subscribing("g", "t", kind=pb.LITE_PUSH_CONSUMER),
        publishing(*(f"t{n}" for n in range(2001))),
    ],
)
async def test_settings_that_cannot_be_taken_end_the_stream(
    world: World, settings: pb.Settings
) -> None:
    client = await world.another("odd")
    stream = client.telemetry()
    await stream.write(pb.TelemetryCommand(settings=settings))
    assert await stream.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.INTERNAL)
    assert await stream.details()


async def test_what_servers_say_is_not_taken_from_clients(world: World) -> None:
    client = await world.another("upside-down")
    stream = client.telemetry()
    command = pb.PrintThreadStackTraceCommand(nonce="1")
    await stream.write(pb.TelemetryCommand(print_thread_stack_trace_command=command))
    assert await stream.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_answers_that_nobody_asked_for_are_dropped(world: World) -> None:
    client = await world.another("talkative")
    async with settled(client, publishing("told")) as (stream, _):
        result = pb.VerifyMessageResult(nonce="nobody")
        await stream.write(pb.TelemetryCommand(verify_message_result=result))
        await stream.write(pb.TelemetryCommand(settings=publishing("told")))
        assert (await eventually(stream)).WhichOneof("command") == "settings"


async def test_a_second_stream_takes_the_place_of_the_first(world: World) -> None:
    client = await world.another("twice")
    first, _ = await client.settled(publishing("told"))
    async with settled(client, publishing("told")):
        assert await first.code() is grpc.StatusCode.CANCELLED


async def test_operators_see_a_consumers_stacks(world: World) -> None:
    client = await world.another("stacked")
    async with settled(client, subscribing("stacked-g", "t")) as (stream, _):
        asked = GetRunningInfo(consumer_group="stacked-g", client_id="stacked")
        plain = await world.ask(asked)
        assert plain.info.stacks is None

        async def answer() -> None:
            command = await eventually(stream)
            nonce = command.print_thread_stack_trace_command.nonce
            trace = pb.ThreadStackTrace(nonce=nonce, thread_stack_trace="main: at work")
            await stream.write(pb.TelemetryCommand(thread_stack_trace=trace))

        answering = asyncio.create_task(answer())
        told = await world.ask(
            GetRunningInfo(consumer_group="stacked-g", client_id="stacked", jstack_enable=True)
        )
        await answering
        assert told.info.stacks == "main: at work"


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (pb.OK, DirectOutcome.CR_SUCCESS),
        (pb.FAILED_TO_CONSUME_MESSAGE, DirectOutcome.CR_LATER),
        (pb.MESSAGE_CORRUPTED, DirectOutcome.CR_RETURN_NULL),
        (pb.VERIFY_FIFO_MESSAGE_UNSUPPORTED, DirectOutcome.CR_THROW_EXCEPTION),
    ],
)
async def test_operators_have_a_consumer_handle_a_message(
    world: World, code: int, outcome: DirectOutcome
) -> None:
    topic, group = await world.topic("direct"), f"direct-{code}"
    client = await world.another(f"direct-{code}")
    await client.send(message(topic, b"look"))
    found = (await client.messages(topic, group))[0]
    place = int(found.system_properties.receipt_handle.rpartition(" ")[2])
    async with settled(client, subscribing(group, topic)) as (stream, _):

        async def answer() -> None:
            command = (await eventually(stream)).verify_message_command
            assert command.message.body == b"look"
            await stream.write(
                pb.TelemetryCommand(
                    status=pb.Status(code=code),
                    verify_message_result=pb.VerifyMessageResult(nonce=command.nonce),
                )
            )

        answering = asyncio.create_task(answer())
        told = await world.ask(
            ConsumeDirectly(
                consumer_group=group,
                client_id=f"direct-{code}",
                msg_id=offset_id(world.inside.core().store_host, place),
                topic=topic,
            )
        )
        await answering
    assert told.result.outcome is outcome


async def test_a_client_without_a_stream_that_is_silent_is_gone(world: World) -> None:
    client = await world.another("silent")
    stream, _ = await client.settled(subscribing("silent-g", "t"))
    stream.cancel()
    sessions = world.service.sessions
    (session,) = [each for each in sessions.all() if each.client_id == "silent"]
    await until(lambda: session.stream is None)
    assert session not in sessions.silent()
    session.seen_ms -= 31_000
    assert session in sessions.silent()
    await world.service._end(session)
    assert not world.inside.core().connected.members("silent-g")
