"""The bytes of half messages and of what decides them."""

from __future__ import annotations

import pytest
from tests.broker.support.sending_parts import HOST, put

from rocketpipe.broker.intake.half_messages import Half, done, half_of, offsets_done
from rocketpipe.model import properties
from rocketpipe.model.flags import COMPRESSED, Transaction
from rocketpipe.model.host import Host
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.names import HALF_OP_TOPIC, HALF_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import RecordView, encode_record


def record(body: bytes = b"x", text: bytes = b"", offset: int = 7) -> RecordView:
    message = StoredMessage(
        topic="t",
        body=body,
        raw_properties=text,
        queue_id=0,
        queue_offset=QueueOffset(offset),
        log_offset=LogOffset(100),
        born_ms=5,
        born_host=Host.unpack(HOST),
        stored_ms=9,
        store_host=Host.unpack(HOST),
    )
    return RecordView(encode_record(message))


def test_a_half_message_knows_its_topic_and_whom_to_ask() -> None:
    half = half_of(put("orders", queue_id=3, sys_flag=Transaction.PREPARED | COMPRESSED), "K", "g")
    assert (half.topic, half.queue_id, half.sys_flag) == (HALF_TOPIC, 0, COMPRESSED)
    said = properties.decode_bytes(half.properties)
    assert said["REAL_TOPIC"] == "orders"
    assert said["REAL_QID"] == "3"
    assert said["__transactionId__"] == "K"
    assert said["PGROUP"] == "g"


def test_a_sender_cannot_make_up_a_past() -> None:
    text = b"TRANSACTION_CHECK_TIMES\x0199\x02TRAN_PREPARED_QUEUE_OFFSET\x010\x02PGROUP\x01mine\x02"
    said = properties.decode_bytes(half_of(put(properties=text), "K", "g").properties)
    assert said["PGROUP"] == "mine"
    assert "TRANSACTION_CHECK_TIMES" not in said
    assert "TRAN_PREPARED_QUEUE_OFFSET" not in said


def test_what_is_done_is_a_list_of_offsets_as_apaches_brokers_write_it() -> None:
    op = done([QueueOffset(17), QueueOffset(18)], "K", 5, HOST)
    assert (op.topic, op.queue_id, op.body) == (HALF_OP_TOPIC, 0, b"17,18,")
    assert list(offsets_done(record(op.body, op.properties))) == [17, 18]


@pytest.mark.parametrize(
    ("body", "text", "offsets"),
    [
        (b"17", b"TAGS\x01d\x02", [17]),  # as 4.x writes it
        (b"17,,x,-3,18", b"TAGS\x01d\x02", [17, 18]),
        (b"17,", b"TAGS\x01e\x02", []),
        (b"17,", b"", []),
        (b"9" * 40, b"TAGS\x01d\x02", []),
        (b"\xff\x00", b"TAGS\x01d\x02", []),
    ],
)
def test_an_op_message_that_says_something_else_is_passed_over(
    body: bytes, text: bytes, offsets: list[int]
) -> None:
    assert list(offsets_done(record(body, text))) == offsets


def test_a_first_copy_counts_from_when_it_was_stored_and_the_others_from_their_birth() -> None:
    first = Half.of(record(text=b"UNIQ_KEY\x01K\x02"))
    assert (first.origin, first.is_first, first.began_ms) == (7, True, 9)
    assert first.spared_ms(6000) == 6000
    text = b"TRANSACTION_CHECK_TIMES\x012\x02TRAN_PREPARED_QUEUE_OFFSET\x013\x02"
    again = Half.of(record(text=text + b"CHECK_IMMUNITY_TIME_IN_SECONDS\x012\x02"))
    assert (again.origin, again.checks, again.is_first) == (3, 2, False)
    assert (again.began_ms, again.spared_ms(6000)) == (5, 2000)


def test_numbers_that_are_none_are_as_if_nobody_had_said_them() -> None:
    text = b"TRANSACTION_CHECK_TIMES\x01x\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x01-1\x02"
    half = Half.of(record(text=text))
    assert (half.checks, half.immunity_ms, half.key) == (0, None, "")
