from __future__ import annotations

import asyncio
import hashlib
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.proxy.support.calling import (
    BROKER,
    GrpcClient,
    World,
    bodies,
    grpc_world,
    message,
    named,
    receiving,
)
from tests.waiting import until

from rocketpipe.model.flags import Compression, with_compression
from rocketpipe.model.topic import MessageType
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.v2 import messaging_pb2 as pb

pytestmark = [pytest.mark.scenario, pytest.mark.asyncio(loop_scope="module")]


def plain_send(topic: str, body: bytes, properties: str = "", sys_flag: int = 0) -> SendMessage:
    """A send of the other protocol."""
    return SendMessage(
        producer_group="pg",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=sys_flag,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties=properties,
        body=body,
    )


async def test_a_message_is_told_whole(world: World, client: GrpcClient) -> None:
    topic = await world.topic("whole")
    sent = message(topic, b"body", tag="a", keys=["k1", "k2"], properties={"p": "v"})
    await client.send(sent)
    status, told, last = await client.receive(topic, "whole-g")
    assert status.status.code == pb.OK
    assert last.WhichOneof("content") == "delivery_timestamp"
    found, said = told.message, told.message.system_properties
    assert (found.topic.name, found.body) == (topic, b"body")
    assert dict(found.user_properties) == {"p": "v"}
    assert (said.tag, list(said.keys)) == ("a", ["k1", "k2"])
    assert said.message_id == sent.system_properties.message_id
    assert said.body_digest.type == pb.MD5
    assert said.body_digest.checksum == hashlib.md5(b"body").hexdigest().upper()
    assert said.body_encoding == pb.IDENTITY
    assert said.message_type == pb.NORMAL
    assert (said.queue_id, said.queue_offset, said.delivery_attempt) == (0, 0, 1)
    assert said.invisible_duration.seconds == 30
    assert len(said.receipt_handle.split(" ")) == 9
    assert said.born_host.startswith("127.0.0.1:")
    assert said.store_timestamp.seconds > 1_700_000_000


async def test_nothing_is_said_in_a_code(world: World, client: GrpcClient) -> None:
    topic = await world.topic("nothing")
    status, last = await client.receive(topic, "nothing-g", polling_ms=1)
    assert status.status.code == pb.MESSAGE_NOT_FOUND
    assert last.WhichOneof("content") == "delivery_timestamp"


async def test_a_receive_that_waits_is_woken(world: World, client: GrpcClient) -> None:
    topic = await world.topic("woken")
    waiting = asyncio.create_task(client.messages(topic, "woken-g", polling_ms=20_000))
    await until(lambda: world.service._receiving._waiting)
    await client.send(message(topic, b"now"))
    assert bodies(await waiting) == [b"now"]


async def test_messages_of_the_other_protocol_are_received(
    world: World, client: GrpcClient
) -> None:
    topic = await world.topic("other")
    flag = with_compression(0, Compression.ZLIB)
    await world.ask(plain_send(topic, b"plain", "KEYS\x01a b\x02TAGS\x01t\x02q\x01w\x02"))
    await world.ask(plain_send(topic, zlib.compress(b"long" * 9), sys_flag=flag))
    first, second = await client.messages(topic, "other-g")
    assert (first.body, list(first.system_properties.keys)) == (b"plain", ["a", "b"])
    assert dict(first.user_properties) == {"q": "w"}
    assert first.system_properties.born_timestamp.seconds == 1_700_000_000
    assert second.system_properties.body_encoding == pb.GZIP
    assert zlib.decompress(second.body) == b"long" * 9
    digest = hashlib.md5(second.body).hexdigest().upper()
    assert second.system_properties.body_digest.checksum == digest


async def test_expressions_choose(world: World, client: GrpcClient) -> None:
    topic = await world.topic("chosen")
    for n, tag in enumerate("abc"):
        await client.send(message(topic, tag.encode(), tag=tag, properties={"n": str(n)}))
    tagged = await client.messages(topic, "tags-g", expression="a || c")
    assert bodies(tagged) == [b"a", b"c"]
    by_sql = await client.messages(topic, "sql-g", expression="n >= 1 AND n < 9", kind=pb.SQL)
    assert bodies(by_sql) == [b"b", b"c"]
    refused = await client.refused(topic, "sql-g", expression="n >= ", kind=pb.SQL)
    assert refused.status.code == pb.ILLEGAL_FILTER_EXPRESSION


async def test_whichever_queue_is_named_all_of_its_broker_are_looked_at(
    world: World, client: GrpcClient
) -> None:
    topic = await world.topic("any-queue", queues=4)
    for queue_id in range(4):
        await world.ask(replace(plain_send(topic, b"%d" % queue_id), queue_id=queue_id))
    for asked, group in ((0, "first-g"), (3, "last-g"), (99, "beyond-g")):
        found = await client.messages(topic, group, queue=asked, polling_ms=1)
        assert sorted(bodies(found)) == [b"0", b"1", b"2", b"3"]


async def test_a_batch_is_at_most_as_asked(world: World, client: GrpcClient) -> None:
    topic = await world.topic("batched")
    await client.send(*(message(topic, b"%d" % n) for n in range(40)))
    assert len(await client.messages(topic, "batched-g", batch=3)) == 3
    assert len(await client.messages(topic, "batched-g", batch=1000)) == 32


async def test_the_same_attempt_gets_the_same_messages(world: World, client: GrpcClient) -> None:
    topic = await world.topic("attempted", MessageType.FIFO)
    group = await world.group("attempted-g", ordered=True)
    await client.send(message(topic, b"1", message_group="g"))
    first = await client.messages(topic, group, queue=0, attempt_id="one")
    again = await client.messages(topic, group, queue=0, attempt_id="one", polling_ms=1)
    other = await client.messages(topic, group, queue=0, attempt_id="two", polling_ms=1)
    assert bodies(first) == bodies(again) == [b"1"]
    assert other == []


async def test_in_order_the_next_comes_when_the_last_is_done(
    world: World, client: GrpcClient
) -> None:
    topic = await world.topic("ordered", MessageType.FIFO)
    group = await world.group("ordered-g", ordered=True)
    for n in range(3):
        await client.send(message(topic, b"%d" % n, message_group="g"))
    got = []
    for _ in range(3):
        (one,) = await client.messages(topic, group, queue=0, batch=1)
        assert one.system_properties.message_group == "g"
        assert await client.messages(topic, group, queue=0, batch=1, polling_ms=1) == []
        waiting = asyncio.create_task(client.messages(topic, group, queue=0, polling_ms=20_000))
        await until(lambda: world.service._receiving._waiting)
        waiting.cancel()
        await client.ack(topic, group, one)
        got.append(one.body)
    assert got == [b"0", b"1", b"2"]


async def test_in_order_what_failed_comes_first(world: World, client: GrpcClient) -> None:
    topic = await world.topic("again", MessageType.FIFO)
    group = await world.group("again-g", ordered=True)
    for n in range(2):
        await client.send(message(topic, b"%d" % n, message_group="g"))
    (one,) = await client.messages(topic, group, queue=0, batch=1)
    await client.call(
        "ChangeInvisibleDuration",
        pb.ChangeInvisibleDurationRequest(
            group=named(group),
            topic=named(topic),
            receipt_handle=one.system_properties.receipt_handle,
        ),
    )
    (same,) = await client.messages(topic, group, queue=0, batch=1, polling_ms=20_000)
    assert (one.body, same.body) == (b"0", b"0")
    assert same.system_properties.delivery_attempt == 2


async def test_a_message_that_was_tried_too_often_is_a_dead_letter(
    world: World, client: GrpcClient
) -> None:
    topic = await world.topic("dead", MessageType.FIFO)
    group = await world.group("dead-g", ordered=True, max_retries=0)
    await client.send(message(topic, b"poison", message_group="g"))
    await client.send(message(topic, b"fine", message_group="g"))
    (one,) = await client.messages(topic, group, queue=0, batch=1)
    assert one.body == b"poison"
    await client.call(
        "ChangeInvisibleDuration",
        pb.ChangeInvisibleDurationRequest(
            group=named(group),
            topic=named(topic),
            receipt_handle=one.system_properties.receipt_handle,
        ),
    )
    found: list[pb.Message] = []
    while not found:
        found = await client.messages(topic, group, queue=0, batch=1)
    assert bodies(found) == [b"fine"]
    store = world.inside.core().store
    assert store.max_offset(f"%DLQ%{group}", 0) == 1


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"invisible_ms": None}, pb.ILLEGAL_INVISIBLE_TIME),
        ({"invisible_ms": 9_999}, pb.ILLEGAL_INVISIBLE_TIME),
        ({"invisible_ms": 12 * 3_600_000 + 1}, pb.ILLEGAL_INVISIBLE_TIME),
        ({"batch": 0}, pb.BAD_REQUEST),
        ({"queue": -2}, pb.BAD_REQUEST),
        ({"broker": "elsewhere"}, pb.BAD_REQUEST),
        ({"expression": "|| ||"}, pb.ILLEGAL_FILTER_EXPRESSION),
    ],
)
async def test_what_is_wrong_with_a_receive_has_its_own_code(
    world: World, client: GrpcClient, said: dict[str, Any], code: int
) -> None:
    topic = await world.topic("asked-wrongly")
    refused = await client.refused(topic, "wrong-g", **said)
    assert refused.status.code == code, refused.status.message


async def test_unknown_topics_and_bad_names_have_their_codes(
    world: World, client: GrpcClient
) -> None:
    refused = await client.refused("not-there", "g")
    assert refused.status.code == pb.TOPIC_NOT_FOUND
    topic = await world.topic("there")
    refused = await client.refused(topic, "no good")
    assert refused.status.code == pb.ILLEGAL_CONSUMER_GROUP


@pytest.mark.parametrize(
    ("version", "code"), [("5.0.7", pb.ILLEGAL_POLLING_TIME), ("5.0.2", pb.BAD_REQUEST)]
)
async def test_a_deadline_before_the_shortest_wait_is_refused(
    world: World, version: str, code: int
) -> None:
    topic = await world.topic("hurried")
    client = await world.another(f"hurried-{version}", **{"x-mq-client-version": version})
    receiving_service = world.service._receiving
    usual = receiving_service._config
    receiving_service._config = type(usual)(min_polling_ms=90_000, max_polling_ms=90_000)
    try:
        stream = client.stream("ReceiveMessage", receiving(topic, "g"), within_s=60)
        refused, *_ = [each async for each in stream]
    finally:
        receiving_service._config = usual
    assert refused.status.code == code


async def test_who_leaves_while_waiting_takes_nothing_along(
    world: World, client: GrpcClient
) -> None:
    topic = await world.topic("left")
    leaving = client.stream("ReceiveMessage", receiving(topic, "left-g", polling_ms=20_000))
    await until(lambda: world.service._receiving._waiting)
    leaving.cancel()
    await until(lambda: not world.service._receiving._waiting)
    await client.send(message(topic, b"kept"))
    assert bodies(await client.messages(topic, "left-g")) == [b"kept"]


async def test_too_many_that_wait_are_turned_away(world: World, client: GrpcClient) -> None:
    topic = await world.topic("crowded")
    receiving_service = world.service._receiving
    usual = receiving_service._config
    receiving_service._config = type(usual)(max_waiting_receives=0)
    try:
        refused = await client.refused(topic, "crowded-g")
    finally:
        receiving_service._config = usual
    assert refused.status.code == pb.TOO_MANY_REQUESTS


async def test_a_reader_that_takes_nothing_is_dropped_and_others_have_the_rest(
    tmp_path: Path,
) -> None:
    proxy = ProxyConfig(min_polling_ms=1, slow_reader_ms=3000)
    async with grpc_world(tmp_path, proxy=proxy) as world:
        client = world.client
        topic = await world.topic("slow")
        for n in range(8):
            await client.send(message(topic, b"%d" % n * 1_000_000))
        stalled = await world.another("stalled")
        stream = stalled.stream("ReceiveMessage", receiving(topic, "slow-g"))
        found: set[bytes] = set()
        while len(found) < 8:  # what was for the other one shows a second later
            found.update(each.body[:1] for each in await client.messages(topic, "slow-g"))
        assert not world.unread.bytes
        with pytest.raises(grpc.aio.AioRpcError):  # it gets what was under way, and then the end
            async for _ in stream:
                pass


async def test_what_readers_leave_is_bounded(
    world: World, client: GrpcClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await world.topic("left")
    for n in range(3):
        await client.send(message(topic, b"%d" % n * 1_000_000))
    stalled = await world.another("leaves-it")
    stream = stalled.stream("ReceiveMessage", receiving(topic, "left-g"))
    await until(lambda: world.unread.bytes)
    monkeypatch.setattr(world.service.readers, "_config", ProxyConfig(max_unread_bytes=1))
    refused = await client.refused(topic, "left-g")
    assert refused.status.code == pb.TOO_MANY_REQUESTS
    stream.cancel()
    await until(lambda: not world.unread.bytes)


async def test_a_body_that_cannot_be_inflated_keeps_no_other_message_back(
    world: World, client: GrpcClient
) -> None:
    topic = await world.topic("poisoned")
    broken = with_compression(0, Compression.LZ4)
    await client.send(message(topic, b"before"))
    await world.ask(plain_send(topic, b"\x04\x22\x4d\x18 this is no LZ4", "", broken))
    await client.send(message(topic, b"behind"))
    answers = await client.receive(topic, "poisoned-g")
    said = [each.WhichOneof("content") for each in answers]
    assert said == ["status", "message", "message", "delivery_timestamp"]
    assert bodies(each.message for each in answers[1:3]) == [b"before", b"behind"]
    pulled = [
        each
        async for each in client.stream(
            "PullMessage",
            pb.PullMessageRequest(
                group=named("pulling-g"),
                message_queue=pb.MessageQueue(
                    topic=named(topic), id=0, broker=pb.Broker(name=BROKER)
                ),
                batch_size=32,
            ),
        )
    ]
    assert bodies(each.message for each in pulled[1:-1]) == [b"before", b"behind"]
    assert pulled[-1].next_offset == 3
