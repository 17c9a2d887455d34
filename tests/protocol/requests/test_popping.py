from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.errors import BodyError, LocalProtocolError, RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol import fastjson
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.command import RESPONSE, Command
from rocketpipe.protocol.request import from_command, read_reply, to_command, to_reply
from rocketpipe.protocol.requests.popping import (
    ANY_QUEUE,
    FROM_MAX,
    MAX_MARKED,
    BatchAck,
    BatchAckMessage,
    BatchAcks,
    PopMessage,
    PopMessageReply,
    marks_of,
)

POP = PopMessage(
    consumer_group="g",
    topic="T",
    queue_id=ANY_QUEUE,
    max_msg_nums=32,
    invisible_time=60_000,
    poll_time=15_000,
    born_time=1,
    init_mode=FROM_MAX,
)


def ack(start: int, marks: bytes) -> BatchAck:
    return BatchAck(
        consumer_group="g",
        topic="T",
        retry="0",
        start_offset=QueueOffset(start),
        queue_id=0,
        revive_queue_id=3,
        pop_time=1,
        invisible_time=2,
        marks=marks,
    )


@pytest.mark.parametrize("code", [0, ResponseCode.POLLING_FULL, ResponseCode.POLLING_TIMEOUT])
def test_nothing_to_pop_is_an_answer(code: int) -> None:
    told = PopMessageReply(code=code, pop_time=0, invisible_time=0, revive_qid=0, rest_num=0)
    command = to_reply(to_command(POP, 1), told)
    assert command.code == code
    assert read_reply(POP, command) == told


def test_a_pop_from_an_unknown_topic_is_a_refusal() -> None:
    with pytest.raises(RequestRejected):
        read_reply(POP, Command(code=ResponseCode.TOPIC_NOT_EXIST, opaque=1, flag=RESPONSE))


def test_where_to_begin_travels_as_a_number() -> None:
    assert to_command(POP, 1).fields["initMode"] == "1"


def test_a_batch_marks_offsets_as_javas_bit_set_does() -> None:
    # Java's BitSet of 0, 3 and 17 is these bytes, CQAC in base64.
    assert marks_of(QueueOffset(100), [QueueOffset(o) for o in (100, 103, 117)]) == b"\x09\0\x02"
    assert list(ack(100, b"\x09\0\x02").offsets()) == [100, 103, 117]


@given(st.sets(st.integers(0, 500)), st.integers(0, 1 << 40))
def test_marked_offsets_are_read_back_in_order(steps: set[int], start: int) -> None:
    offsets = [QueueOffset(start + step) for step in steps]
    marks = marks_of(QueueOffset(start), offsets)
    assert list(ack(start, marks).offsets()) == sorted(offsets)


@pytest.mark.parametrize("offset", [99, 100 + MAX_MARKED])
def test_an_offset_out_of_reach_is_not_marked(offset: int) -> None:
    with pytest.raises(LocalProtocolError, match="out of reach"):
        marks_of(QueueOffset(100), [QueueOffset(offset)])


def test_more_marks_than_a_pop_could_need_are_refused() -> None:
    batch = BatchAcks(broker_name="b", acks=(ack(0, bytes(MAX_MARKED // 8)),))
    body = fastjson.write(batch)
    asked = from_command(BatchAckMessage, Command(code=200151, opaque=1, body=body))
    assert asked.batch == batch
    too_many = fastjson.write(BatchAcks(acks=(ack(0, bytes(MAX_MARKED // 8 + 1)),)))
    with pytest.raises(BodyError):
        from_command(BatchAckMessage, Command(code=200151, opaque=1, body=too_many))
