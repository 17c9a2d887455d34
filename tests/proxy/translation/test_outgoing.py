from __future__ import annotations

import gzip
import hashlib
import zlib
from typing import Any

import pytest
from tests.proxy.support.calling import message

from rocketpipe.model import properties
from rocketpipe.model.flags import COMPRESSED, Transaction, transaction_of
from rocketpipe.model.topic import MessageType
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.status import Refused
from rocketpipe.proxy.translation.outgoing import is_users, outgoing
from rocketpipe.proxy.v2 import messaging_pb2 as pb

CONFIG = ProxyConfig()
MOST = 1000
NOW_MS = 1_700_000_000_000


def said_of(sent: pb.Message) -> dict[str, str]:
    return properties.decode(outgoing(sent, CONFIG, MOST, NOW_MS).properties)


def test_a_message_says_the_same_in_properties() -> None:
    sent = message("t", tag="a", keys=["x", "y"], trace_context="c", properties={"p": "v"})
    said = said_of(sent)
    assert said == {
        "p": "v",
        "UNIQ_KEY": sent.system_properties.message_id,
        "TAGS": "a",
        "KEYS": "x y",
        "TRACE_CONTEXT": "c",
    }


def test_kinds_are_known_by_what_they_ask_for() -> None:
    later = outgoing(message("t", delivery_ms=NOW_MS + 5), CONFIG, MOST, NOW_MS)
    assert later.kind is MessageType.DELAY
    assert properties.decode(later.properties)["TIMER_DELIVER_MS"] == str(NOW_MS + 5)
    ordered = outgoing(message("t", message_group="g"), CONFIG, MOST, NOW_MS)
    assert (ordered.kind, ordered.group) == (MessageType.FIFO, "g")
    half = message("t", message_type=pb.TRANSACTION)
    half.system_properties.orphaned_transaction_recovery_duration.FromMilliseconds(1500)
    prepared = outgoing(half, CONFIG, MOST, NOW_MS)
    assert prepared.kind is MessageType.TRANSACTION
    assert transaction_of(prepared.sys_flag) is Transaction.PREPARED
    said = properties.decode(prepared.properties)
    assert (said["TRAN_MSG"], said["CHECK_IMMUNITY_TIME_IN_SECONDS"]) == ("true", "2")


def test_a_recovery_that_takes_longer_than_an_hour_is_refused() -> None:
    half = message("t", message_type=pb.TRANSACTION)
    half.system_properties.orphaned_transaction_recovery_duration.FromMilliseconds(3_600_001)
    with pytest.raises(Refused) as refused:
        outgoing(half, CONFIG, MOST, NOW_MS)
    assert refused.value.code == pb.BAD_REQUEST


def test_a_time_of_birth_that_is_none_is_now() -> None:
    sent = message("t")
    assert outgoing(sent, CONFIG, MOST, NOW_MS).born_ms == NOW_MS
    sent.system_properties.born_timestamp.seconds = 2**61
    assert outgoing(sent, CONFIG, MOST, NOW_MS).born_ms == NOW_MS
    sent.system_properties.born_timestamp.FromMilliseconds(NOW_MS - 7)
    assert outgoing(sent, CONFIG, MOST, NOW_MS).born_ms == NOW_MS - 7


@pytest.mark.parametrize(
    ("kind", "checksum"),
    [
        (pb.MD5, hashlib.md5(b"body", usedforsecurity=False).hexdigest().upper()),
        (pb.SHA1, hashlib.sha1(b"body", usedforsecurity=False).hexdigest()),
        (pb.CRC32, f"{zlib.crc32(b'body'):08X}"),
        (pb.CRC32, str(zlib.crc32(b"body"))),
    ],
)
def test_a_digest_that_is_right_is_taken(kind: int, checksum: str) -> None:
    sent = message("t", body_digest=pb.Digest(type=kind, checksum=checksum))
    assert outgoing(sent, CONFIG, MOST, NOW_MS).body == b"body"


def test_gzip_becomes_zlib() -> None:
    sent = message("t", gzip.compress(b"plain" * 9), body_encoding=pb.GZIP)
    made = outgoing(sent, CONFIG, MOST, NOW_MS)
    assert made.sys_flag & COMPRESSED
    assert zlib.decompress(made.body) == b"plain" * 9


def test_a_body_that_inflates_without_end_is_refused() -> None:
    bomb = gzip.compress(bytes(64 * 1024 * 1024))
    with pytest.raises(Refused) as refused:
        outgoing(message("t", bomb, body_encoding=pb.GZIP), CONFIG, len(bomb), NOW_MS)
    assert refused.value.code == pb.MESSAGE_BODY_TOO_LARGE


def test_names_of_rocketmq_are_not_the_users() -> None:
    assert not is_users("UNIQ_KEY")
    assert not is_users("__SHARDINGKEY")
    assert is_users("city")


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"body": b""}, pb.MESSAGE_BODY_EMPTY),
        ({"body": b"x" * 1001}, pb.MESSAGE_BODY_TOO_LARGE),
        ({"message_id": ""}, pb.ILLEGAL_MESSAGE_ID),
        ({"tag": " "}, pb.ILLEGAL_MESSAGE_TAG),
        ({"tag": "a|b"}, pb.ILLEGAL_MESSAGE_TAG),
        ({"keys": [""]}, pb.ILLEGAL_MESSAGE_KEY),
        ({"message_group": "g" * 64}, pb.ILLEGAL_MESSAGE_GROUP),
        ({"message_group": ""}, pb.ILLEGAL_MESSAGE_GROUP),
        ({"properties": {"UNIQ_KEY": "x"}}, pb.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"properties": {"a\x01b": "x"}}, pb.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"properties": {f"p{n}": "x" for n in range(129)}}, pb.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"properties": {"p": "x" * 17_000}}, pb.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"delivery_ms": 4_000_000_000_000}, pb.ILLEGAL_DELIVERY_TIME),
        ({"body_encoding": pb.GZIP}, pb.MESSAGE_CORRUPTED),
        ({"body_digest": pb.Digest(type=pb.MD5, checksum="0" * 32)}, pb.MESSAGE_CORRUPTED),
        ({"body_digest": pb.Digest(type=pb.CRC32, checksum="1")}, pb.MESSAGE_CORRUPTED),
        ({"message_type": pb.FIFO}, pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ({"lite_topic": "small"}, pb.UNSUPPORTED),
        ({"priority": 3}, pb.UNSUPPORTED),
    ],
)
def test_what_is_wrong_with_a_message_has_its_own_code(said: dict[str, Any], code: int) -> None:
    body = said.get("body", b"body")
    wrong = message("t", body, **{name: said[name] for name in said if name != "body"})
    with pytest.raises(Refused) as refused:
        outgoing(wrong, CONFIG, MOST, NOW_MS)
    assert refused.value.code == code
    assert str(refused.value)
