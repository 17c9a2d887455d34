from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.proxy.support.calling import (
    GrpcClient,
    World,
    bodies,
    eventually,
    grpc_world,
    message,
    named,
    publishing,
)

from rocketpipe.model.topic import MessageType
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.v2 import messaging_pb2 as pb

pytestmark = [pytest.mark.scenario, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with grpc_world(
        tmp_path_factory.mktemp("grpc"),
        proxy=ProxyConfig(min_polling_ms=1),
        transaction_timeout_ms=200,
        transaction_check_every_ms=200,
    ) as running:
        yield running


def ending(topic: str, entry: pb.SendResultEntry, resolution: int) -> pb.EndTransactionRequest:
    return pb.EndTransactionRequest(
        topic=named(topic),
        message_id=entry.message_id,
        transaction_id=entry.transaction_id,
        resolution=resolution,
        source=pb.SOURCE_CLIENT,
    )


async def begun(client: GrpcClient, topic: str, body: bytes) -> pb.SendResultEntry:
    answer = await client.send(message(topic, body, message_type=pb.TRANSACTION))
    assert answer.status.code == pb.OK, answer.status.message
    (entry,) = answer.entries
    return entry


async def test_a_decision_shows_a_message_or_drops_it(world: World, client: GrpcClient) -> None:
    topic = await world.topic("decided", MessageType.TRANSACTION)
    kept, dropped = await begun(client, topic, b"kept"), await begun(client, topic, b"dropped")
    assert await client.messages(topic, "decided-g", polling_ms=1) == []
    for entry, resolution in ((kept, pb.COMMIT), (dropped, pb.ROLLBACK)):
        answer = await client.call("EndTransaction", ending(topic, entry, resolution))
        assert answer.status.code == pb.OK, answer.status.message
    found = await client.messages(topic, "decided-g", polling_ms=20_000)
    assert bodies(found) == [b"kept"]
    assert found[0].system_properties.message_type == pb.TRANSACTION


async def test_a_producer_is_asked_about_what_it_left_open(world: World) -> None:
    topic = await world.topic("open", MessageType.TRANSACTION)
    client = await world.another("asked")
    stream, _ = await client.settled(publishing(topic))
    entry = await begun(client, topic, b"open")
    command = (await eventually(stream)).recover_orphaned_transaction_command
    assert command.message.body == b"open"
    assert command.message.topic.name == topic
    assert command.message.system_properties.message_id == entry.message_id
    decision = ending(topic, entry, pb.COMMIT)
    decision.transaction_id = command.transaction_id
    decision.source = pb.SOURCE_SERVER_CHECK
    assert (await client.call("EndTransaction", decision)).status.code == pb.OK
    assert bodies(await client.messages(topic, "open-g", polling_ms=20_000)) == [b"open"]
    stream.cancel()


async def test_who_does_not_know_yet_is_taken_at_its_word(world: World, client: GrpcClient) -> None:
    topic = await world.topic("unknown", MessageType.TRANSACTION)
    entry = await begun(client, topic, b"?")
    unknown = ending(topic, entry, pb.TRANSACTION_RESOLUTION_UNSPECIFIED)
    assert (await client.call("EndTransaction", unknown)).status.code == pb.OK
    assert await client.messages(topic, "unknown-g", polling_ms=1) == []


@pytest.mark.parametrize("forged", ["", " ", "abc", "key broker-a 1 x", "key a/b 1 2", "k" * 2000])
async def test_an_id_that_no_send_gave_is_refused(client: GrpcClient, forged: str) -> None:
    entry = pb.SendResultEntry(transaction_id=forged)
    answer = await client.call("EndTransaction", ending("t", entry, pb.COMMIT))
    assert answer.status.code == pb.INVALID_TRANSACTION_ID


async def test_a_place_where_no_half_message_is_decides_nothing(
    world: World, client: GrpcClient
) -> None:
    topic = await world.topic("nowhere", MessageType.TRANSACTION)
    entry = await begun(client, topic, b"half")
    key, broker, queue_offset, log_offset = entry.transaction_id.split(" ")
    for forged in (
        f"{key} {broker} {queue_offset} {int(log_offset) + 1}",
        f"{key} {broker} 999 {log_offset}",
    ):
        entry.transaction_id = forged
        answer = await client.call("EndTransaction", ending(topic, entry, pb.COMMIT))
        assert answer.status.code == pb.INTERNAL_SERVER_ERROR
    entry.transaction_id = f"{key} elsewhere {queue_offset} {log_offset}"
    answer = await client.call("EndTransaction", ending(topic, entry, pb.COMMIT))
    assert answer.status.code == pb.BAD_REQUEST
    assert await client.messages(topic, "nowhere-g", polling_ms=1) == []
