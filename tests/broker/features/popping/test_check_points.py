"""Notes of pops are what RocketMQ's own classes write, and are read from what they wrote."""

from __future__ import annotations

import pytest
from tests.broker.support.sending_parts import HOST

from rocketpipe.broker.features.popping.check_points import (
    Ack,
    CheckPoint,
    ack_of,
    check_point,
    java_int,
    put_ack,
    put_point,
)
from rocketpipe.model import properties
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol import fastjson
from rocketpipe.store.log.puts import Put

# By fastjson 1.2.83 of PopCheckPoint, AckMsg and BatchAckMsg of Apache RocketMQ 5.3.3.
POINT = (
    b'{"bm":0,"bn":"broker-a","c":"g","d":[0,5],"it":60000,"n":2,"pt":1700000000000,"q":3,'
    b'"reviveTime":1700000060000,"ro":0,"so":17,"t":"T"}'
)
AGAIN = (
    b'{"bm":-2147483647,"bn":"broker-a","c":"g","d":[0,5],"it":60000,"n":2,"pt":1700000000000,'
    b'"q":3,"reviveTime":1700000060000,"ro":0,"rp":"2","so":17,"t":"T"}'
)
ACK = b'{"ao":22,"bn":"broker-a","c":"g","pt":1700000000000,"q":3,"so":17,"t":"T"}'
SEVERAL = (
    b'{"ao":-1,"aol":[17,22],"bn":"broker-a","c":"g","pt":1700000000000,"q":3,"so":17,"t":"T"}'
)


def point(*offsets: int) -> CheckPoint:
    return check_point(
        topic="T",
        group="g",
        queue_id=3,
        start=QueueOffset(17),
        offsets=[QueueOffset(each) for each in offsets],
        pop_ms=1_700_000_000_000,
        invisible_ms=60_000,
        broker="broker-a",
    )


def stored(put: Put) -> tuple[bytes, dict[str, str]]:
    return put.body, properties.decode_bytes(put.properties)


def test_a_check_point_is_stored_as_rocketmq_stores_it() -> None:
    body, given = stored(put_point(point(17, 22), "revive", 5, HOST, 1))
    assert body == POINT
    assert given == {
        "TAGS": "ck",
        "UNIQ_KEY": "T@3@17@g@1700000000000@broker-a@ck",
        "TIMER_DELIVER_MS": "1700000059000",
    }


@pytest.mark.parametrize(
    ("offsets", "body", "tag"), [([22], ACK, "ack"), ([17, 22], SEVERAL, "bAck")]
)
def test_an_acknowledgement_is_stored_as_rocketmq_stores_it(
    offsets: list[int], body: bytes, tag: str
) -> None:
    ack = ack_of(point(17, 22), [QueueOffset(each) for each in offsets])
    written, given = stored(put_ack(ack, 1_700_000_060_000, "revive", 5, HOST, 1))
    assert written == body
    assert given["TAGS"] == tag
    assert given["TIMER_DELIVER_MS"] == "1700000060000"


def test_what_rocketmq_wrote_is_read() -> None:
    read = fastjson.read(AGAIN, CheckPoint)
    assert read.offsets == (17, 22)
    assert read.acked == 0x80000001
    assert read.due_ms == 1_700_000_060_000
    assert read.end == 23
    assert read.key == point(17, 22).key
    assert fastjson.read(ACK, Ack).offsets == (22,)
    assert fastjson.read(SEVERAL, Ack).offsets == (17, 22)
    assert fastjson.read(SEVERAL, Ack).key == read.key


def test_an_old_check_point_is_of_messages_without_gaps() -> None:
    old = fastjson.read(POINT.replace(b'"d":[0,5],', b""), CheckPoint)
    assert old.offsets == (17, 18)


@pytest.mark.parametrize(
    ("bits", "number"), [(0, 0), (1, 1), (1 << 31, -(1 << 31)), (0xFFFFFFFF, -1)]
)
def test_bits_are_written_as_javas_int(bits: int, number: int) -> None:
    assert java_int(bits) == number
