from __future__ import annotations

import hashlib

import pytest
from tests.proxy.support.calling import named

from rocketpipe.model import properties as well_known
from rocketpipe.model.flags import Compression, with_compression
from rocketpipe.model.host import Host
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.proxy.translation.incoming import kind_of, stored
from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.record.codec import RecordView, encode_record
from rocketpipe.record.compression import compress


def record(body: bytes = b"body", sys_flag: int = 0, born_ms: int = 5, **said: str) -> RecordView:
    message = StoredMessage(
        topic="t",
        body=body,
        raw_properties=well_known.encode(said).encode(),
        queue_id=3,
        queue_offset=QueueOffset(7),
        log_offset=LogOffset(99),
        sys_flag=sys_flag,
        born_ms=born_ms,
        born_host=Host.parse("10.0.0.1:4"),
        stored_ms=6,
        store_host=Host.parse("10.0.0.2:5"),
        reconsume_times=2,
    )
    return RecordView(encode_record(message))


def test_a_message_without_a_key_is_called_by_its_place() -> None:
    view = record()
    said = stored(view, named("t")).system_properties
    assert said.message_id == view.offset_id
    assert (said.queue_id, said.queue_offset, said.delivery_attempt) == (3, 7, 3)
    assert (said.born_host, said.store_host) == ("10.0.0.1:4", "10.0.0.2:5")


def test_rocketmqs_own_properties_are_not_the_users() -> None:
    found = stored(record(UNIQ_KEY="K", TAGS="a", MSG_REGION="r", own="1"), named("t"))
    assert dict(found.user_properties) == {"own": "1"}
    assert found.system_properties.message_id == "K"


@pytest.mark.parametrize("kind", [Compression.LZ4, Compression.ZSTD])
def test_what_grpc_clients_cannot_inflate_is_inflated_here(kind: Compression) -> None:
    view = record(compress(b"plain" * 50, kind), with_compression(0, kind))
    found = stored(view, named("t"))
    assert (found.body, found.system_properties.body_encoding) == (b"plain" * 50, pb.IDENTITY)
    digest = hashlib.md5(b"plain" * 50).hexdigest().upper()
    assert found.system_properties.body_digest.checksum == digest


def test_times_that_protobuf_would_not_have_are_told_all_the_same() -> None:
    found = stored(record(born_ms=2**60, TIMER_DELIVER_MS="12000"), named("t"))
    assert found.system_properties.born_timestamp.seconds == 2**60 // 1000
    assert found.system_properties.delivery_timestamp.seconds == 12


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({}, pb.NORMAL),
        ({"TRAN_MSG": "true", "__SHARDINGKEY": "g"}, pb.TRANSACTION),
        ({"DELAY": "3"}, pb.DELAY),
        ({"TIMER_DELIVER_MS": "3"}, pb.DELAY),
        ({"__SHARDINGKEY": "g"}, pb.FIFO),
    ],
)
def test_kinds_are_known_by_properties(said: dict[str, str], kind: int) -> None:
    assert kind_of(said) == kind
