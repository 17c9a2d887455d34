from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.proxy.support.calling import GrpcClient, World, message, named

from rocketpipe.model.topic import MessageType
from rocketpipe.protocol.requests.pulling import PullMessage
from rocketpipe.proxy.translation import outgoing
from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.record.codec import RecordView, view_records

pytestmark = [pytest.mark.scenario, pytest.mark.asyncio(loop_scope="module")]


async def stored(world: World, topic: str, queue_id: int = 0) -> list[RecordView]:
    """What a consumer of the other protocol reads."""
    reply = await world.ask(
        PullMessage(
            consumer_group="reader",
            topic=topic,
            queue_id=queue_id,
            queue_offset=0,
            max_msg_nums=32,
            sys_flag=4,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
            expression_type="TAG",
        )
    )
    return list(view_records(reply.messages))


async def test_what_is_sent_is_stored_as_others_read_it(world: World, client: GrpcClient) -> None:
    topic = await world.topic("sent")
    sent = message(
        topic,
        "grüße".encode(),
        tag="paid",
        keys=["A1", "A2"],
        trace_context="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        properties={"city": "Köln"},
    )
    answer = await client.send(sent)
    assert answer.status.code == pb.OK
    (entry,) = answer.entries
    assert entry.message_id == sent.system_properties.message_id
    assert entry.offset == 0
    (record,) = await stored(world, topic)
    assert record.body == "grüße".encode()
    assert record.tags == "paid"
    assert record.keys == ("A1", "A2")
    assert record.message_id == entry.message_id
    assert record.properties["city"] == "Köln"
    assert record.properties["TRACE_CONTEXT"].startswith("00-4bf9")


async def test_a_batch_lies_together_in_one_queue(world: World, client: GrpcClient) -> None:
    topic = await world.topic("together", queues=4)
    answer = await client.send(*(message(topic, b"%d" % n) for n in range(5)))
    assert answer.status.code == pb.OK
    assert [entry.offset for entry in answer.entries] == [0, 1, 2, 3, 4]
    found = [await stored(world, topic, queue) for queue in range(4)]
    assert [[record.body for record in each] for each in found if each] == [
        [b"0", b"1", b"2", b"3", b"4"]
    ]


async def test_messages_go_round_the_queues_and_groups_stay(
    world: World, client: GrpcClient
) -> None:
    topic = await world.topic("round", MessageType.UNSPECIFIED, queues=4)
    for n in range(4):
        await client.send(message(topic, b"any%d" % n))
    assert [len(await stored(world, topic, queue)) for queue in range(4)] == [1, 1, 1, 1]
    for n in range(3):
        await client.send(message(topic, b"%d" % n, message_group="customer-7"))
    sizes = [len(await stored(world, topic, queue)) for queue in range(4)]
    assert sorted(sizes) == [1, 1, 1, 4]


async def test_a_gzip_body_is_read_by_consumers_of_the_other_protocol(
    world: World, client: GrpcClient
) -> None:
    topic = await world.topic("zipped")
    plain = b"again and " * 100
    answer = await client.send(message(topic, gzip.compress(plain), body_encoding=pb.GZIP))
    assert answer.status.code == pb.OK
    (record,) = await stored(world, topic)
    assert record.body == plain
    assert len(record.stored_body) < len(plain)


async def test_a_delayed_message_has_a_handle_and_can_be_recalled(
    world: World, client: GrpcClient
) -> None:
    topic = await world.topic("later", MessageType.DELAY)
    due_ms = int(time.time() * 1000) + 3_600_000
    (entry,) = (await client.send(message(topic, delivery_ms=due_ms))).entries
    assert entry.recall_handle
    asked = pb.RecallMessageRequest(topic=named(topic), recall_handle=entry.recall_handle)
    answer = await client.call("RecallMessage", asked)
    assert answer.status.code == pb.OK
    assert answer.message_id == entry.message_id
    asked.recall_handle = "bm90IG9uZQ"
    assert (await client.call("RecallMessage", asked)).status.code == pb.BAD_REQUEST


@pytest.mark.parametrize(
    ("kind", "said", "fits"),
    [
        (MessageType.NORMAL, {}, True),
        (MessageType.NORMAL, {"message_group": "g"}, False),
        (MessageType.FIFO, {"message_group": "g"}, True),
        (MessageType.FIFO, {}, False),
        (MessageType.DELAY, {"delivery_ms": 1}, True),
        (MessageType.DELAY, {}, False),
        (MessageType.TRANSACTION, {"message_type": pb.TRANSACTION}, True),
        (MessageType.TRANSACTION, {}, False),
        (MessageType.UNSPECIFIED, {"message_group": "g"}, True),
    ],
)
async def test_a_topic_takes_messages_of_its_own_type(
    world: World, client: GrpcClient, kind: MessageType, said: dict[str, Any], fits: bool
) -> None:
    topic = await world.topic(f"typed-{kind.value}-{fits}", kind)
    answer = await client.send(message(topic, **said))
    wanted = pb.OK if fits else pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    assert answer.status.code == wanted, answer.status.message


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        (list, pb.BAD_REQUEST),
        (lambda: [message("one"), message("two")], pb.MESSAGE_CORRUPTED),
        (lambda: [message("missing")], pb.TOPIC_NOT_FOUND),
        (lambda: [message("no spaces")], pb.ILLEGAL_TOPIC),
        (lambda: [message("TBW102")], pb.ILLEGAL_TOPIC),
        (lambda: [message("one", b"x" * 2000) for _ in range(1025)], pb.PAYLOAD_TOO_LARGE),
    ],
)
async def test_a_send_as_a_whole_may_be_wrong(
    world: World, client: GrpcClient, messages: Callable[[], list[pb.Message]], code: int
) -> None:
    await world.topic("one")
    await world.topic("two")
    answer = await client.send(*messages())
    assert answer.status.code == code, answer.status.message


async def test_a_topic_that_may_not_be_written_is_forbidden(
    world: World, client: GrpcClient
) -> None:
    topic = await world.topic("read-only", perm=4)
    assert (await client.send(message(topic))).status.code == pb.FORBIDDEN


async def test_messages_that_are_no_batch_have_each_a_status(
    world: World, client: GrpcClient
) -> None:
    topic = await world.topic("apart", MessageType.UNSPECIFIED, queues=2)
    answer = await client.send(
        message(topic, b"1", message_group="a"), message(topic, b"2", message_group="b")
    )
    assert [entry.status.code for entry in answer.entries] == [pb.OK, pb.OK]
    assert answer.status.code == pb.OK


async def test_what_the_broker_refuses_is_told_in_the_entry(
    world: World, client: GrpcClient
) -> None:
    topic = await world.topic("full")
    store = world.inside.core().admission
    store.accept_from(4_000_000_000_000)  # the broker takes nothing before that time
    answer = await client.send(message(topic))
    assert answer.status.code not in (pb.OK, pb.CODE_UNSPECIFIED)
    assert answer.entries[0].status.code == answer.status.code
    assert "2096" in answer.status.message
    store.accept_from(0)


async def test_what_inflates_does_so_beside_the_loop(
    world: World, client: GrpcClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await world.topic("bombs")
    threads: list[int] = []
    usual = outgoing._as_zlib

    def noted(body: bytes) -> bytes:
        threads.append(threading.get_ident())
        return usual(body)

    monkeypatch.setattr(outgoing, "_as_zlib", noted)
    bomb = gzip.compress(bytes(1 << 20))
    assert len(bomb) < 2000
    answer = await client.send(message(topic, bomb, body_encoding=pb.GZIP))
    assert answer.status.code == pb.OK
    assert threads
    assert threading.get_ident() not in threads
