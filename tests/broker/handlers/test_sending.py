"""Sends and send-backs: what is stored, and what is refused with which code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.sending_parts import SendingParts, sent

from rocketpipe.broker.intake.admission import AdmissionLimits
from rocketpipe.errors import RequestRejected
from rocketpipe.model import properties
from rocketpipe.model.flags import BORN_HOST_V6, INNER_BATCH, MULTI_TAGS, Transaction
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.ids import OffsetId, RecallHandle
from rocketpipe.model.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.topic import TopicFilterType, TopicSettings
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.sending import SendMessageBack, SendMessageReply
from rocketpipe.record import checksum
from rocketpipe.record.batch import Entry, encode_batch
from rocketpipe.record.layout import MAX_BODY_BYTES
from rocketpipe.store.config import FlushMode
from rocketpipe.testing.clock import ManualClock

READ_ONLY = {"permission": 4}


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[SendingParts]:
    parts = SendingParts(tmp_path, ManualClock())
    yield parts
    parts.abandon()


async def refused(
    parts: SendingParts, request: Request[Any], version: int = 479
) -> tuple[int, str]:
    with pytest.raises(RequestRejected) as error:
        await parts.ask(request, version)
    return error.value.code, error.value.remark


def batch(*texts: str) -> bytes:
    return encode_batch(
        [Entry(number, b"%d" % number, text.encode()) for number, text in enumerate(texts)]
    )


async def test_a_message_is_stored_as_sent_with_what_the_broker_adds(parts: SendingParts) -> None:
    reply: SendMessageReply = await parts.ask(sent(flag=9, reconsume_times=2))
    assert (reply.code, reply.queue_id, reply.queue_offset) == (0, 0, 0)
    assert (reply.transaction_id, reply.region, reply.trace_on) == ("K1", "DefaultRegion", True)
    (message,) = parts.stored("t")
    assert message.body == b"body"
    assert (message.flag, message.reconsume_times, message.born_ms) == (9, 2, 5)
    assert str(message.born_host) == "10.0.0.3:50001"
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


async def test_a_message_without_a_unique_key_gets_one(parts: SendingParts) -> None:
    reply = await parts.ask(sent(properties=""))
    (message,) = parts.stored("t")
    assert len(reply.transaction_id) == 32
    assert message.properties["UNIQ_KEY"] == reply.transaction_id


async def test_a_clients_own_notes_are_not_kept(parts: SendingParts) -> None:
    await parts.ask(sent(properties="POP_CK\x01x\x02UNIQ_KEY\x01K\x02odd\x01kept"))
    (message,) = parts.stored("t")
    assert "POP_CK" not in message.properties
    assert message.properties["odd"] == "kept"


async def test_a_batch_becomes_consecutive_messages_each_with_its_key(parts: SendingParts) -> None:
    body = batch("UNIQ_KEY\x01K", "TAGS\x01A")
    reply = await parts.ask(sent(body=body, batch=True, properties="UNIQ_KEY\x01whole"))
    first, second = parts.stored("t")
    assert (first.body, first.flag, second.body, second.flag) == (b"0", 0, b"1", 1)
    assert first.properties["UNIQ_KEY"] == "K"
    assert len(second.properties["UNIQ_KEY"]) == 32
    assert second.properties["CLUSTER"] == "DefaultCluster"
    ids = [OffsetId.parse(text).log_offset for text in reply.msg_id.split(",")]
    assert ids == [first.log_offset, second.log_offset]
    assert (reply.queue_offset, reply.transaction_id) == (0, "whole")


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"body": batch("", "")[:-1]}, "at byte"),
        ({"body": b""}, "without messages"),
        ({"body": batch("", "DELAY\x013")}, "may have no DELAY"),
        ({"body": batch("", "DELAY\x01x")}, "whole number"),
        ({"body": batch("", "TIMER_DELAY_SEC\x011")}, "may have no TIMER_DELAY_SEC"),
        ({"body": batch("", "TRAN_MSG\x01true")}, "may not be a half one"),
        ({"body": batch("", "INNER_NUM\x013")}, "INNER_NUM"),
        ({"topic": "%RETRY%g"}, "batch request does not support retry group %RETRY%g"),
        ({"topic": "%DLQ%" + "g" * 125}, "message topic length too long 130"),
        ({"sys_flag": INNER_BATCH}, "inner batch"),
    ],
)
async def test_a_batch_that_is_wrong_is_refused_whole(
    parts: SendingParts, changes: dict[str, Any], remark: str
) -> None:
    await parts.ask(sent())
    request = sent(**{"body": batch(""), "batch": True, **changes})
    code, text = await refused(parts, request)
    assert (code, remark in text) == (13, True), text
    assert len(parts.stored("t")) == 1


async def test_a_negative_queue_is_the_brokers_choice(parts: SendingParts) -> None:
    chosen = {(await parts.ask(sent(queue_id=-1))).queue_id for _ in range(60)}
    assert chosen == {0, 1, 2, 3}


async def test_a_queue_that_is_not_there_is_refused(parts: SendingParts) -> None:
    code, remark = await refused(parts, sent(queue_id=4))
    assert code == 29
    assert "request queueId[4] is illegal" in remark


async def test_a_queue_that_can_only_be_read_is_still_there(parts: SendingParts) -> None:
    parts.tables.topics.update(TopicSettings(name="t", read_queues=4, write_queues=2), 1)
    assert (await parts.ask(sent(queue_id=3))).queue_id == 3


@pytest.mark.parametrize("topic", ["../../etc/passwd", "a b", "x" * 128, "topic\x00", ""])
async def test_a_name_outside_the_rules_is_refused(parts: SendingParts, topic: str) -> None:
    assert (await refused(parts, sent(topic)))[0] == 29


async def test_a_topic_that_only_brokers_write_is_refused(parts: SendingParts) -> None:
    code, remark = await refused(parts, sent(SCHEDULE_TOPIC))
    assert code == 16
    assert "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden" in remark


async def test_an_unknown_topic_without_a_pattern_is_refused(parts: SendingParts) -> None:
    code, remark = await refused(parts, sent(default_topic="unknown"))
    assert code == 17
    assert "topic[t] not exist" in remark


async def test_a_read_only_broker_refuses_sends_in_order_alone(tmp_path: Path) -> None:
    parts = SendingParts(tmp_path, ManualClock(), config=READ_ONLY)
    parts.tables.topics.update(TopicSettings(name="ordered", ordered=True), 1)
    code, remark = await refused(parts, sent("ordered"))
    assert code == 16
    assert remark.startswith("the broker[broker-a] sending message is forbidden")
    assert (await parts.ask(sent())).code == 0
    code, _ = await refused(parts, SendMessageBack(offset=0, group="g", delay_level=0))  # type: ignore[arg-type]
    assert code == 16
    parts.abandon()


async def test_a_body_or_properties_beyond_the_limit_are_refused(parts: SendingParts) -> None:
    code, remark = await refused(parts, sent(body=bytes(MAX_BODY_BYTES + 1)))
    assert (code, str(MAX_BODY_BYTES) in remark) == (13, True)
    for text in (f"a\x01{'x' * 32_720}\x02", f"DELAY\x011\x02a\x01{'x' * 32_650}\x02"):
        assert (await refused(parts, sent(properties=text)))[0] == 13
    assert parts.stored("t") == []


async def test_a_half_message_with_a_delay_that_nobody_can_wait_for_is_refused_at_once(
    parts: SendingParts,
) -> None:
    for asks in ("TIMER_DELAY_SEC\x01999999999", "TIMER_DELIVER_MS\x01soon"):
        text = f"TRAN_MSG\x01true\x02PGROUP\x01p\x02{asks}\x02"
        assert (await refused(parts, sent(properties=text)))[0] == 13
    assert parts.stored(HALF_TOPIC) == []


async def test_a_compacted_topic_wants_keys(parts: SendingParts) -> None:
    compacted = {"cleanup.policy": "COMPACTION"}
    parts.tables.topics.update(TopicSettings(name="t", attributes=compacted), 1)
    assert await refused(parts, sent()) == (13, "Required message key is missing")
    assert (await parts.ask(sent(properties="KEYS\x01k"))).code == 0


async def test_a_timed_message_waits_and_can_be_taken_back(parts: SendingParts) -> None:
    reply = await parts.ask(sent(properties="UNIQ_KEY\x01K\x02TIMER_DELAY_SEC\x015"))
    assert parts.stored("t") == []
    (waiting,) = parts.stored(TIMER_TOPIC)
    assert waiting.properties["REAL_TOPIC"] == "t"
    handle = RecallHandle.parse(reply.recall_handle)
    due_ms = int(waiting.properties["TIMER_OUT_MS"]) + 1
    assert (handle.topic, handle.broker, handle.unique_key) == ("t", "broker-a", "K")
    assert handle.deliver_ms == due_ms
    assert (await parts.ask(sent())).recall_handle is None


async def test_a_half_message_does_not_show(parts: SendingParts) -> None:
    half = "TRAN_MSG\x01true\x02UNIQ_KEY\x01K"
    reply = await parts.ask(sent(properties=half, queue_id=3))
    assert (reply.queue_id, reply.queue_offset, reply.transaction_id) == (3, 0, "K")
    (stored,) = parts.stored(HALF_TOPIC)
    assert stored.properties["PGROUP"] == "p"
    assert (await parts.ask(sent(properties="TRAN_MSG\x01false"))).code == 0
    # Clients before 4.6.1 leave the mark in what they send to be consumed again.
    again = sent("%RETRY%g", properties=half + "\x02DELAY\x013", reconsume_times=1)
    assert (await parts.ask(again)).code == 0
    assert len(parts.stored(HALF_TOPIC)) == 1


PLAIN, HALF, DELAYED, TIMED = "", "TRAN_MSG\x01true", "DELAY\x011", "TIMER_DELAY_MS\x019"


@pytest.mark.parametrize(
    ("kind", "taken"),
    [
        ("NORMAL", {PLAIN}),
        ("FIFO", {PLAIN}),
        ("DELAY", {DELAYED, TIMED}),
        ("TRANSACTION", {HALF}),
        ("MIXED", {PLAIN, HALF, DELAYED, TIMED}),
        ("UNSPECIFIED", {PLAIN, HALF, DELAYED, TIMED}),
    ],
)
async def test_a_topic_takes_what_it_is_for(
    parts: SendingParts, kind: str, taken: set[str]
) -> None:
    topics = parts.tables.topics
    typed = TopicSettings(name="typed", attributes={"message.type": kind})
    topics.establish([typed], parts.clock.now_ms())
    for text in (PLAIN, HALF, DELAYED, TIMED):
        if text in taken:
            assert (await parts.ask(sent("typed", properties=text))).code == 0
            continue
        code, remark = await refused(parts, sent("typed", properties=text))
        assert code == 13
        assert f"the expected type is {kind}, but actual type is" in remark


async def test_where_transactions_are_switched_off_they_are_forbidden(tmp_path: Path) -> None:
    parts = SendingParts(tmp_path, ManualClock(), config={"reject_transactions": True})
    code, remark = await refused(parts, sent(properties="TRAN_MSG\x01TRUE"))
    assert code == 16
    assert "sending transaction message is forbidden" in remark
    parts.abandon()


async def test_a_sender_cannot_make_a_record_lie_or_never_show(parts: SendingParts) -> None:
    await parts.ask(sent(sys_flag=BORN_HOST_V6 | Transaction.PREPARED | 1))
    (message,) = parts.stored("t")
    assert message.sys_flag == 1
    code, _ = await refused(parts, sent(sys_flag=INNER_BATCH))
    assert code == 13


async def test_messages_of_a_topic_with_many_tags_say_so(parts: SendingParts) -> None:
    many = TopicSettings(name="t", filter_type=TopicFilterType.MULTI_TAG)
    parts.tables.topics.update(many, 1)
    await parts.ask(sent())
    assert parts.stored("t")[0].sys_flag & MULTI_TAGS


async def test_a_delayed_message_waits_elsewhere(parts: SendingParts) -> None:
    reply = await parts.ask(sent(properties="DELAY\x013\x02UNIQ_KEY\x01K", queue_id=2))
    assert (reply.queue_id, reply.queue_offset) == (2, 0)
    (waiting,) = parts.stored(SCHEDULE_TOPIC, 2)
    assert waiting.offset_id == reply.msg_id
    assert waiting.properties["REAL_TOPIC"] == "t"
    assert waiting.properties["REAL_QID"] == "2"
    await parts.clock.advance(10_000)
    await parts.delays.deliver_due()
    assert len(parts.stored("t", 2)) == 1


@pytest.mark.parametrize("level", ["0", "-1"])
async def test_a_level_of_zero_or_less_is_no_delay(parts: SendingParts, level: str) -> None:
    await parts.ask(sent(properties=f"DELAY\x01{level}"))
    assert len(parts.stored("t")) == 1


async def test_a_busy_broker_refuses_before_anything_else(tmp_path: Path) -> None:
    limits = AdmissionLimits(accept_from_ms=1 << 42)
    parts = SendingParts(tmp_path, ManualClock(), limits=limits)
    code, remark = await refused(parts, sent("../.."))
    assert (code, remark[:22]) == (1, "broker unable to servi")
    parts.abandon()


async def test_who_does_not_wait_for_the_disk_is_not_kept(tmp_path: Path) -> None:
    parts = SendingParts(tmp_path, ManualClock(), flush=FlushMode.SYNC)
    assert (await parts.ask(sent(properties="WAIT\x01false"))).code == 0
    waiting = asyncio.create_task(parts.ask(sent()))
    await parts.clock.advance(0)
    assert not waiting.done()
    await parts.clock.advance(5000)
    assert (await waiting).code == 10
    parts.abandon()


# To a retry topic


async def test_a_send_to_a_retry_topic_makes_it_with_one_queue(parts: SendingParts) -> None:
    await parts.ask(sent("%RETRY%g", reconsume_times=16))
    topic = parts.tables.topics.get("%RETRY%g")
    assert topic is not None
    assert topic.write_queues == 1
    assert len(parts.stored("%RETRY%g")) == 1


@pytest.mark.parametrize(
    ("changes", "version", "dead"),
    [
        ({"reconsume_times": 17}, 479, True),
        ({"reconsume_times": 3, "max_reconsume_times": 2}, 479, True),
        ({"reconsume_times": 2, "max_reconsume_times": 2}, 479, False),
        ({"reconsume_times": 3, "max_reconsume_times": 2}, 120, False),
    ],
)
async def test_a_send_beyond_the_last_attempt_is_a_dead_letter(
    parts: SendingParts, changes: dict[str, Any], version: int, dead: bool
) -> None:
    text = "UNIQ_KEY\x01K\x02RETRY_TOPIC\x01t\x02ORIGIN_MESSAGE_ID\x01ID\x02DELAY\x015"
    await parts.ask(sent("%RETRY%g", properties=text, **changes), version)
    letters = parts.stored("%DLQ%g")
    assert len(letters) == dead
    if dead:
        found = letters[0].properties
        assert (found["DELAY"], found["RETRY_TOPIC"]) == ("-1", "t")
        assert (found["DLQ_ORIGIN_TOPIC"], found["DLQ_ORIGIN_MESSAGE_ID"]) == ("t", "ID")
        assert "failed attempts" in found["DLQ_REASON"]
    else:
        assert len(parts.stored(SCHEDULE_TOPIC, 4)) == 1


async def test_what_a_consumer_in_order_sends_back_is_a_dead_letter(parts: SendingParts) -> None:
    queue = MessageQueue(topic="t", broker_name="broker-a", queue_id=0)
    parts.locks.lock("g", "me", [queue], parts.clock.monotonic_ms())
    await parts.ask(sent("%RETRY%g"))
    assert len(parts.stored("%DLQ%g")) == 1
    await parts.clock.advance(60_001)
    await parts.ask(sent("%RETRY%g"))
    assert len(parts.stored("%RETRY%g")) == 1


async def test_a_retry_topic_of_a_group_that_is_not_there_is_refused(tmp_path: Path) -> None:
    parts = SendingParts(tmp_path, ManualClock(), config={"auto_create_groups": False})
    assert await refused(parts, sent("%RETRY%g")) == (26, "subscription group not exist, g")
    parts.abandon()


# Sent back


async def test_a_message_that_is_sent_back_comes_again(parts: SendingParts) -> None:
    await parts.ask(sent())
    (message,) = parts.stored("t")
    back = SendMessageBack(offset=message.log_offset, group="g", delay_level=0)
    assert await parts.ask(back) is None
    await parts.clock.advance(9999)
    await parts.delays.deliver_due()
    assert parts.stored("%RETRY%g") == []
    await parts.clock.advance(1)
    await parts.delays.deliver_due()
    (again,) = parts.stored("%RETRY%g")
    assert (again.body, again.reconsume_times) == (b"body", 1)
    assert again.properties[properties.RETRY_TOPIC] == "t"


async def test_a_group_that_wants_nothing_twice_is_answered_and_nothing_is_stored(
    parts: SendingParts,
) -> None:
    parts.tables.groups.update(GroupSettings(name="g", retry_queues=0), 1)
    end = parts.store.positions.written
    assert await parts.ask(SendMessageBack(offset=9, group="g", delay_level=0)) is None  # type: ignore[arg-type]
    assert parts.store.positions.written == end


async def test_a_send_back_of_nothing_or_by_nobody_is_refused(parts: SendingParts) -> None:
    nothing = SendMessageBack(offset=9, group="g", delay_level=0)  # type: ignore[arg-type]
    assert (await refused(parts, nothing))[0] == 1
    nobody = SendMessageBack(offset=9, group="../g", delay_level=0)  # type: ignore[arg-type]
    assert (await refused(parts, nobody))[0] == 29


async def test_a_queue_below_zero_is_any_queue(parts: SendingParts) -> None:
    replies = [await parts.ask(sent(queue_id=-1)) for _ in range(80)]
    assert {reply.queue_id for reply in replies} == {0, 1, 2, 3}
