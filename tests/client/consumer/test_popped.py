"""Each popped message has the receipt that its broker knows it by."""

from __future__ import annotations

import pytest

from rocketpipe.client.consumer.popped import popped
from rocketpipe.errors import HeaderError
from rocketpipe.model.host import Host
from rocketpipe.model.ids import RetryKind
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.protocol.requests.popping import PopMessageReply
from rocketpipe.record.codec import encode_record

HOST = Host(bytes((127, 0, 0, 1)), 10911)


def record(queue_id: int, offset: int, *, topic: str = "t", properties: bytes = b"") -> bytes:
    return encode_record(
        StoredMessage(
            topic=topic,
            body=b"%d/%d" % (queue_id, offset),
            raw_properties=properties,
            queue_id=queue_id,
            queue_offset=QueueOffset(offset),
            log_offset=LogOffset(0),
            born_ms=1,
            born_host=HOST,
            stored_ms=2,
            store_host=HOST,
            reconsume_times=4,
        )
    )


def reply(*records: bytes, starts: str, taken: str, counts: str | None = None) -> PopMessageReply:
    return PopMessageReply(
        pop_time=1000,
        invisible_time=500,
        revive_qid=3,
        rest_num=0,
        start_offset_info=starts,
        msg_offset_info=taken,
        order_count_info=counts,
        messages=b"".join(records),
    )


def test_receipts_are_made_of_where_the_pop_began() -> None:
    answer = reply(
        record(0, 7), record(0, 9), record(1, 4), starts="0 0 5;0 1 4", taken="0 0 7,9;0 1 4"
    )
    messages = popped(answer, "t", "broker-a")
    assert [str(each.handle) for each in messages] == [
        "5 1000 500 3 0 broker-a 0 7",
        "5 1000 500 3 0 broker-a 0 9",
        "4 1000 500 3 0 broker-a 1 4",
    ]
    assert [each.topic for each in messages] == ["t"] * 3
    assert messages[0].visible_at_ms == 1500
    assert messages[0].reconsume_times == 4
    assert messages[2].queue.queue_id == 1


def test_one_that_comes_again_brings_its_receipt_along() -> None:
    own = b"POP_CK\x012 900 500 1 1 broker-a 0 2\x02"
    answer = reply(record(0, 2, properties=own), record(0, 7), starts="0 0 7", taken="0 0 7")
    again, first = popped(answer, "t", "broker-a")
    assert again.handle.retry is RetryKind.RETRY_V1
    assert again.handle.pop_ms == 900
    assert first.handle.queue_offset == 7


def test_one_that_comes_again_under_its_retry_topic_is_found_as_well() -> None:
    answer = reply(record(0, 2, topic="%RETRY%g+t"), starts="2 0 2", taken="2 0 2")
    (again,) = popped(answer, "t", "broker-a")
    assert str(again.handle) == "2 1000 500 3 2 broker-a 0 2"
    assert again.topic == "t"


def test_in_order_the_answer_says_how_often_it_was_tried() -> None:
    answer = reply(
        record(0, 7), record(0, 8), starts="0 0 7", taken="0 0 7,8", counts="0 qo0%7 2;0 0 1"
    )
    assert [each.reconsume_times for each in popped(answer, "t", "b")] == [2, 1]


@pytest.mark.parametrize(("starts", "taken"), [("", ""), ("0 0 7", ""), ("0 0 7", "0 1 7")])
def test_an_answer_that_does_not_add_up_is_the_brokers_mistake(starts: str, taken: str) -> None:
    with pytest.raises(HeaderError, match="does not tell the offset"):
        popped(reply(record(0, 7), starts=starts, taken=taken), "t", "b")
