"""The backend inside a broker, where users are known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest
import pytest_asyncio
from tests.proxy.support.calling import (
    BROKER,
    GrpcClient,
    World,
    endpoints,
    grpc_world,
    message,
    named,
    publishing,
    signed,
    subscribing,
)

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.failures import MAX_FROM_ADDRESS, MAX_ON_CONNECTION
from rocketpipe.auth.infos import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from rocketpipe.auth.secret import Secret
from rocketpipe.protocol.requests.users import CreateAcl, CreateUser, UpdateUser
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.front.front import Front
from rocketpipe.proxy.v2 import messaging_pb2 as pb

pytestmark = [pytest.mark.scenario, pytest.mark.asyncio(loop_scope="module")]


ROOT = Credentials("root", Secret("roots-secret-text"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def front() -> Front:
    return Front(None)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory, front: Front) -> AsyncIterator[World]:
    async with grpc_world(
        tmp_path_factory.mktemp("grpc"),
        proxy=ProxyConfig(min_polling_ms=1),
        sign=ROOT.sign,
        listen=front.listen,
        authentication=True,
        init_user='{"username":"root","password":"roots-secret-text"}',
    ) as running:
        yield running


async def user(world: World, name: str, **rights: str) -> GrpcClient:
    """Make a user with rights such as ``Topic="orders:Pub"``; gives a client of theirs."""
    secret = f"the-secret-of-{name}"
    await world.ask(CreateUser(username=name, user=UserInfo(password=secret)))
    entries = tuple(
        PolicyEntryInfo(
            resource=f"{kind}:{text.partition(':')[0]}",
            actions=tuple(text.partition(":")[2].split(",")),
            decision="Allow",
        )
        for kind, text in rights.items()
    )
    if entries:
        acl = AclInfo(policies=(PolicyInfo(policy_type="Custom", entries=entries),))
        await world.ask(CreateAcl(subject=f"User:{name}", acl=acl))
    return signed(await world.another(f"client-of-{name}"), name, secret)


def route_of(topic: str) -> pb.QueryRouteRequest:
    return pb.QueryRouteRequest(topic=named(topic), endpoints=endpoints())


async def test_strangers_are_not_let_in(world: World, client: GrpcClient) -> None:
    await world.topic("guarded")
    known = await user(world, "ann", Topic="guarded:Pub")
    assert (await known.send(message("guarded"))).status.code == pb.OK
    secret = "the-secret-of-ann"
    for stranger in (
        client,
        signed(client, "ann", "another-secret"),
        signed(client, "nobody", secret),
        signed(client, "", secret),
        signed(client, "ann", secret, "20200101T000000Z"),
        signed(client, "ann", secret, ""),
        GrpcClient(client.channel, {**known.metadata, "authorization": "x"}),
        GrpcClient(client.channel, {**known.metadata, "x-mq-session-token": "t"}),
    ):
        answer = await stranger.send(message("guarded"))
        assert answer.status.code == pb.UNAUTHORIZED, answer.status.message
        assert secret not in answer.status.message
    stream = client.telemetry()
    assert await stream.code() is grpc.StatusCode.UNAUTHENTICATED


def sent_away(front: Front) -> int:
    (_, refused) = front.families()
    return int(sum(each.value for each in refused.series if each.labels["why"] == "logins"))


async def test_failed_logins_are_limited_by_where_they_come_from_and_good_ones_never(
    world: World, front: Front
) -> None:
    await world.topic("flooded")
    known = await user(world, "flooded-ann", Topic="flooded:Pub")
    gate = world.inside.core().gate
    assert gate is not None
    before = sent_away(front)
    wrong = signed(await world.another("guesser"), "flooded-ann", "a-guess")
    for _ in range(MAX_ON_CONNECTION):
        assert (await wrong.send(message("flooded"))).status.code == pb.UNAUTHORIZED
    assert sent_away(front) == before + 1
    for number in range(MAX_FROM_ADDRESS):
        gate.failures.failed("127.0.0.1", f"guess {number % 3}")
    again = signed(await world.another("guesser"), "flooded-ann", "a-guess")
    assert (await again.send(message("flooded"))).status.code == pb.UNAUTHORIZED
    assert sent_away(front) == before + 2
    # From the same address, while it floods: on an open connection, and on a new one.
    assert (await known.send(message("flooded"))).status.code == pb.OK
    new = signed(await world.another("new"), "flooded-ann", "the-secret-of-flooded-ann")
    assert (await new.send(message("flooded"))).status.code == pb.OK
    assert sent_away(front) == before + 2
    gate.failures._tries.clear()  # for the tests that follow


async def test_users_do_what_they_were_granted_and_no_more(world: World) -> None:
    await world.topic("hers")
    await world.topic("his")
    writer = await user(world, "writer", Topic="hers:Pub")
    reader = await user(world, "reader", Topic="hers:Sub", Group="readers:Sub")
    assert (await writer.send(message("hers", b"1"))).status.code == pb.OK
    assert (await writer.send(message("his", b"1"))).status.code == pb.FORBIDDEN
    assert (await reader.send(message("hers", b"1"))).status.code == pb.FORBIDDEN
    assert (await writer.call("QueryRoute", route_of("his"))).status.code == pb.FORBIDDEN
    refused = await writer.refused("hers", "readers")
    assert refused.status.code == pb.FORBIDDEN
    (found,) = await reader.messages("hers", "readers")
    refused = await reader.refused("hers", "others")
    assert refused.status.code == pb.FORBIDDEN
    assert (await writer.ack("hers", "readers", found)).status.code == pb.FORBIDDEN
    assert (await reader.ack("hers", "readers", found)).status.code == pb.OK
    stream = reader.telemetry()
    await stream.write(pb.TelemetryCommand(settings=subscribing("others", "hers")))
    assert await stream.code() is grpc.StatusCode.INVALID_ARGUMENT
    stream, answer = await reader.settled(subscribing("readers", "hers"))
    assert answer.status.code == pb.OK
    stream.cancel()


async def test_an_open_stream_is_no_way_in_for_who_was_disabled(world: World) -> None:
    await world.topic("was_hers")
    gone = await user(world, "gone", Topic="was_hers:Sub", Group="readers:Sub")
    stream, answer = await gone.settled(subscribing("readers", "was_hers"))
    assert answer.status.code == pb.OK
    await world.ask(UpdateUser(username="gone", user=UserInfo(user_status="disable")))
    await stream.write(pb.TelemetryCommand(settings=subscribing("readers", "was_hers")))
    async with asyncio.timeout(30):  # it would stay open else
        assert await stream.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_what_one_user_is_called_is_no_way_into_anothers_session(world: World) -> None:
    one = await user(world, "first", Topic="t:Pub")
    two = await user(world, "second", Topic="t:Pub")
    two.metadata["x-mq-client-id"] = one.metadata["x-mq-client-id"]
    stream, _ = await one.settled(publishing("t"))
    answer = await two.call("Heartbeat", pb.HeartbeatRequest(client_type=pb.PRODUCER))
    assert answer.status.code == pb.UNRECOGNIZED_CLIENT_TYPE
    stream.cancel()


async def test_another_broker_is_not_here(world: World) -> None:
    root = signed(await world.another("root"), "root", "roots-secret-text")
    await world.topic("elsewhere")
    refused = await root.refused("elsewhere", "g", broker="broker-z")
    assert refused.status.code == pb.BAD_REQUEST
    assert BROKER in refused.status.message
