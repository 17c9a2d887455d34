"""Pops over a socket: what is refused, and that a pop waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.broker.conftest import Ask
from tests.broker.support.sending_parts import sent
from tests.waiting import PATIENCE_S

from rocketpipe.clock import SystemClock
from rocketpipe.errors import RequestRejected
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.ids import ReceiptHandle, RetryKind
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.groups import UpdateAndCreateGroup
from rocketpipe.protocol.requests.pop_offsets import read_message_offsets, read_start_offsets
from rocketpipe.protocol.requests.popping import (
    AckMessage,
    BatchAck,
    BatchAckMessage,
    BatchAcks,
    ChangeInvisibleTime,
    Notification,
    PeekMessage,
    PollingInfo,
    PopMessage,
    marks_of,
)
from rocketpipe.record.codec import view_records

pytestmark = pytest.mark.scenario


def now_ms() -> int:
    return SystemClock().now_ms()


def pop(**changes: Any) -> PopMessage:
    fields: dict[str, Any] = {
        "consumer_group": "g",
        "topic": "t",
        "queue_id": 0,
        "max_msg_nums": 32,
        "invisible_time": 60_000,
        "poll_time": 0,
        "born_time": now_ms(),
        "init_mode": 0,
    }
    return PopMessage(**{**fields, **changes})


async def refusal(ask: Ask, request: Any) -> ResponseCode:
    with pytest.raises(RequestRejected) as refused:
        await ask(request)
    assert refused.value.remark
    return ResponseCode(refused.value.code)


async def test_what_breaks_a_rule_is_refused_as_rocketmq_refuses_it(ask: Ask) -> None:
    assert await refusal(ask, pop(topic="nowhere")) is ResponseCode.TOPIC_NOT_EXIST
    await ask(sent("t"))
    assert await refusal(ask, pop(max_msg_nums=33)) is ResponseCode.INVALID_PARAMETER
    assert await refusal(ask, pop(max_msg_nums=0)) is ResponseCode.INVALID_PARAMETER
    assert await refusal(ask, pop(queue_id=99)) is ResponseCode.INVALID_PARAMETER
    assert await refusal(ask, pop(invisible_time=0)) is ResponseCode.INVALID_PARAMETER
    assert await refusal(ask, pop(invisible_time=1 << 40)) is ResponseCode.INVALID_PARAMETER
    bad = pop(exp="a >", exp_type="SQL92")
    assert await refusal(ask, bad) is ResponseCode.SUBSCRIPTION_PARSE_FAILED
    await ask(UpdateAndCreateGroup(settings=GroupSettings(name="off", consume_enable=False)))
    assert await refusal(ask, pop(consumer_group="off")) is ResponseCode.NO_PERMISSION
    late = await ask(pop(born_time=now_ms() - 10_000))
    assert late.code == ResponseCode.POLLING_TIMEOUT


async def test_a_round_of_popping(ask: Ask) -> None:
    for number in range(4):
        await ask(sent("t", b"%d" % number))
    peeked = await ask(PeekMessage(consumer_group="g", topic="t", queue_id=0, max_msg_nums=2))
    assert [each.body for each in view_records(peeked.messages)] == [b"0", b"1"]
    noticed = await ask(
        Notification(consumer_group="g", topic="t", queue_id=-1, poll_time=0, born_time=0)
    )
    assert noticed.has_msg
    reply = await ask(pop())
    ((queue, start),) = read_start_offsets(reply.start_offset_info).items()
    assert read_message_offsets(reply.msg_offset_info) == {queue: [0, 1, 2, 3]}
    assert reply.rest_num == 0
    handle = ReceiptHandle(
        start_offset=start,
        pop_ms=reply.pop_time,
        invisible_ms=60_000,
        revive_queue_id=reply.revive_qid,
        retry=RetryKind.NORMAL,
        broker="broker-a",
        queue_id=0,
        queue_offset=0,
    )
    one: dict[str, Any] = {"consumer_group": "g", "topic": "t", "queue_id": 0}
    await ask(AckMessage(**one, extra_info=str(handle), offset=QueueOffset(0)))
    changed = await ask(
        ChangeInvisibleTime(
            **one, extra_info=str(handle), offset=QueueOffset(3), invisible_time=50_000
        )
    )
    assert changed.revive_qid == reply.revive_qid
    assert changed.invisible_time in (50_000, 49_999)
    batch = BatchAck(
        consumer_group="g",
        topic="t",
        retry="0",
        start_offset=QueueOffset(0),
        queue_id=0,
        revive_queue_id=reply.revive_qid,
        pop_time=reply.pop_time,
        invisible_time=60_000,
        marks=marks_of(QueueOffset(0), [QueueOffset(1), QueueOffset(2)]),
    )
    await ask(BatchAckMessage(batch=BatchAcks(broker_name="broker-a", acks=(batch,))))
    nothing = await ask(pop())
    assert nothing.code == ResponseCode.POLLING_TIMEOUT

    assert await refusal(ask, BatchAckMessage(batch=BatchAcks())) is ResponseCode.NO_MESSAGE
    wrong = AckMessage(**one, extra_info="1 2 3", offset=QueueOffset(0))
    assert await refusal(ask, wrong) is ResponseCode.INVALID_PARAMETER
    beyond = AckMessage(**one, extra_info=str(handle), offset=QueueOffset(4))
    assert await refusal(ask, beyond) is ResponseCode.NO_MESSAGE
    one["queue_id"] = 99
    illegal = AckMessage(**one, extra_info=str(handle), offset=QueueOffset(0))
    assert await refusal(ask, illegal) is ResponseCode.MESSAGE_ILLEGAL
    one["queue_id"] = 1
    other = ChangeInvisibleTime(
        **one, extra_info=str(handle), offset=QueueOffset(0), invisible_time=1
    )
    assert await refusal(ask, other) is ResponseCode.NO_MESSAGE


async def test_a_pop_waits_for_a_message_and_is_counted_meanwhile(ask: Ask) -> None:
    await ask(sent("t"))
    await ask(pop())
    waiting = asyncio.ensure_future(ask(pop(queue_id=-1, poll_time=20_000)))
    notified = asyncio.ensure_future(
        ask(
            Notification(
                consumer_group="h", topic="t", queue_id=1, poll_time=20_000, born_time=now_ms()
            )
        )
    )
    counting = PollingInfo(consumer_group="g", topic="t", queue_id=-1)
    async with asyncio.timeout(PATIENCE_S):
        while (await ask(counting)).polling_num != 1:
            pass
        while (await ask(PollingInfo(consumer_group="h", topic="t", queue_id=1))).polling_num != 1:
            pass
        await ask(sent("t", b"late", queue_id=1))
        reply = await waiting
        assert (await notified).has_msg
    assert [each.body for each in view_records(reply.messages)] == [b"late"]
    assert (await ask(counting)).polling_num == 0


@pytest.mark.parametrize("knows_retry_topics", [True, False], ids=["new client", "old client"])
async def test_a_client_that_knows_no_second_form_of_retry_topics_acknowledges_all_the_same(
    ask: Ask, *, knows_retry_topics: bool
) -> None:
    await ask(sent("t", b"0"))
    reply = await ask(pop())
    handle = ReceiptHandle(
        start_offset=0,
        pop_ms=reply.pop_time,
        invisible_ms=60_000,
        revive_queue_id=reply.revive_qid,
        retry=RetryKind.NORMAL,
        broker="broker-a",
        queue_id=0,
    )
    place: dict[str, Any] = {"consumer_group": "g", "queue_id": 0, "offset": QueueOffset(0)}
    now = ChangeInvisibleTime(**place, topic="t", extra_info=str(handle), invisible_time=0)
    await ask(now)
    again = await ask(pop(poll_time=20_000))
    (record,) = view_records(again.messages)
    assert record.topic == "t"
    receipt = ReceiptHandle.parse(record.properties["POP_CK"])
    assert receipt.retry is RetryKind.RETRY_V2
    topic = "%RETRY%g+t" if knows_retry_topics else "t"
    await ask(AckMessage(**place, topic=topic, extra_info=str(receipt)))
    hidden = ChangeInvisibleTime(**place, topic=topic, extra_info=str(receipt), invisible_time=9)
    assert await refusal(ask, hidden) is ResponseCode.NO_MESSAGE, "it was acknowledged"


async def test_what_is_wanted_is_found_behind_much_that_is_not(ask: Ask) -> None:
    for some in range(0, 2000, 100):
        await asyncio.gather(
            *(ask(sent("t", properties="a\x010")) for _ in range(some, some + 100))
        )
    await ask(sent("t", b"wanted", properties="a\x011"))
    # In less time than it takes until those who wait look again by themselves.
    reply = await ask(pop(exp="a = '1'", exp_type="SQL92", poll_time=4000))
    assert [record.body for record in view_records(reply.messages)] == [b"wanted"]
