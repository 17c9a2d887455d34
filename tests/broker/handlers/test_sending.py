"""Sends, each over a real socket: what is stored, and what is refused with which code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from rocketpipe.client.consumer.pull import pull_request
from rocketpipe.errors import RequestRejected
from rocketpipe.model import properties
from rocketpipe.model.flags import BORN_HOST_V6
from rocketpipe.model.ids import OffsetId
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.sending import SendMessage, SendMessageReply
from rocketpipe.record import checksum
from rocketpipe.record.batch import Entry, encode_batch
from rocketpipe.record.codec import RecordView, view_records
from rocketpipe.record.layout import MAX_BODY_BYTES
from rocketpipe.testing import Cluster

Ask = Callable[[Request[Any]], Awaitable[Any]]


def sent(topic: str = "t", body: bytes = b"body", **changes: Any) -> SendMessage:
    fields: dict[str, Any] = {
        "producer_group": "p",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": 5,
        "flag": 0,
        "properties": "UNIQ_KEY\x01K1\x02TAGS\x01A",
        "body": body,
    }
    return SendMessage(**{**fields, **changes})


async def stored(ask: Ask, queue_id: int = 0) -> list[RecordView]:
    queue = MessageQueue(topic="t", broker_name="broker-a", queue_id=queue_id)
    reply = await ask(pull_request("g", queue, QueueOffset(0), "*", suspend_ms=0))
    return list(view_records(reply.messages))


async def refused(ask: Ask, request: SendMessage) -> tuple[int, str]:
    with pytest.raises(RequestRejected) as error:
        await ask(request)
    return error.value.code, error.value.remark


async def test_a_message_is_stored_as_sent_with_what_the_broker_adds(
    ask: Ask, servers: Cluster
) -> None:
    reply: SendMessageReply = await ask(sent(flag=9, reconsume_times=2))
    assert (reply.queue_id, reply.queue_offset) == (0, 0)
    assert (reply.transaction_id, reply.region, reply.trace_on) == ("K1", "DefaultRegion", True)
    (message,) = await stored(ask)
    assert message.body == b"body"
    assert (message.flag, message.reconsume_times, message.born_ms) == (9, 2, 5)
    assert str(message.store_host) == servers.broker
    assert OffsetId.parse(reply.msg_id).log_offset == message.log_offset
    assert checksum.is_sealed(message.raw)
    assert dict(message.properties) == {
        "__CRC32#": message.properties["__CRC32#"],
        "UNIQ_KEY": "K1",
        "TAGS": "A",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
    }


async def test_the_long_names_of_code_10_and_mixed_spellings_are_taken(ask: Ask) -> None:
    class Long(SendMessage):
        codes = SendMessage.codes
        short_codes = frozenset()

    await ask(Long(**{name: getattr(sent(), name) for name in SendMessage.__dataclass_fields__}))
    assert [message.body for message in await stored(ask)] == [b"body"]


async def test_a_batch_becomes_consecutive_messages(ask: Ask) -> None:
    text = properties.encode({properties.UNIQ_KEY: "K"}).encode()
    body = encode_batch([Entry(1, b"one", text), Entry(2, b"two", text)])
    reply = await ask(sent(body=body, batch=True))
    first, second = await stored(ask)
    assert (first.body, first.flag, second.body, second.flag) == (b"one", 1, b"two", 2)
    assert (first.queue_offset, second.queue_offset) == (0, 1)
    ids = [OffsetId.parse(text).log_offset for text in reply.msg_id.split(",")]
    assert ids == [first.log_offset, second.log_offset]


async def test_a_batch_that_does_not_add_up_is_refused_whole(ask: Ask) -> None:
    body = encode_batch([Entry(0, b"one", b""), Entry(0, b"two", b"")])
    await ask(sent())
    code, _ = await refused(ask, sent(body=body[:-1], batch=True))
    assert code == ResponseCode.MESSAGE_ILLEGAL
    assert await refused(ask, sent(body=b"", batch=True))
    assert len(await stored(ask)) == 1


async def test_a_negative_queue_is_the_brokers_choice(ask: Ask) -> None:
    chosen = {(await ask(sent(queue_id=-1))).queue_id for _ in range(60)}
    assert chosen == {0, 1, 2, 3}


async def test_a_queue_that_is_not_there_is_refused(ask: Ask) -> None:
    code, remark = await refused(ask, sent(queue_id=4))
    assert code == ResponseCode.INVALID_PARAMETER
    assert "queueId[4] is illegal" in remark


@pytest.mark.parametrize("topic", ["../../etc/passwd", "a b", "x" * 128, "topic\x00"])
async def test_a_name_outside_the_rules_is_refused(ask: Ask, topic: str) -> None:
    code, _ = await refused(ask, sent(topic))
    assert code == ResponseCode.INVALID_PARAMETER


async def test_a_topic_that_only_brokers_write_is_refused(ask: Ask) -> None:
    code, _ = await refused(ask, sent("SCHEDULE_TOPIC_XXXX"))
    assert code == ResponseCode.NO_PERMISSION


async def test_an_unknown_topic_without_a_pattern_is_refused(ask: Ask) -> None:
    code, remark = await refused(ask, sent(default_topic="unknown"))
    assert code == ResponseCode.TOPIC_NOT_EXIST
    assert "topic[t] not exist" in remark


async def test_a_body_or_properties_beyond_the_limit_are_refused(ask: Ask) -> None:
    code, remark = await refused(ask, sent(body=bytes(MAX_BODY_BYTES + 1)))
    assert (code, str(MAX_BODY_BYTES) in remark) == (ResponseCode.MESSAGE_ILLEGAL, True)
    code, _ = await refused(ask, sent(properties=f"a\x01{'x' * 32_720}\x02"))
    assert code == ResponseCode.MESSAGE_ILLEGAL


@pytest.mark.parametrize("name", [properties.DELAY, properties.TRANSACTION_PREPARED])
async def test_what_is_not_served_yet_is_refused_not_ignored(ask: Ask, name: str) -> None:
    _, remark = await refused(ask, sent(properties=f"{name}\x011\x02"))
    assert f"does not serve {name} messages yet" in remark


async def test_a_sender_cannot_make_the_record_lie_about_its_hosts(ask: Ask) -> None:
    await ask(sent(sys_flag=BORN_HOST_V6))
    (message,) = await stored(ask)
    assert not message.sys_flag & BORN_HOST_V6
    assert str(message.born_host).startswith("127.0.0.1:")


async def test_a_created_topic_has_its_route_before_the_send_is_answered(
    ask: Ask, servers: Cluster
) -> None:
    from rocketpipe.protocol.requests.routes import GetRouteInfoByTopic
    from rocketpipe.remoting.caller import Caller

    await ask(sent("fresh"))
    async with Caller() as caller:
        reply = await caller.call(servers.name_server, GetRouteInfoByTopic(topic="fresh"))
    assert msgspec.structs.asdict(reply.route.queues[0])["write_queues"] == 4
