"""Whose message it is that lies in a topic of RocketMQ's own."""

from __future__ import annotations

import pytest

from rocketpipe.model import properties
from rocketpipe.model.host import Host
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import RecordView, encode_record
from rocketpipe.record.real_topic import real_topic


@pytest.mark.parametrize(
    ("topic", "said", "real"),
    [
        ("orders", "secrets", "orders"),
        ("RMQ_SYS_TRANS_HALF_TOPIC", "orders", "orders"),
        ("SCHEDULE_TOPIC_XXXX", "orders", "orders"),
        ("SCHEDULE_TOPIC_XXXX", "", "SCHEDULE_TOPIC_XXXX"),
    ],
)
def test_only_the_brokers_own_topics_say_for_whom_a_message_is(
    topic: str, said: str, real: str
) -> None:
    given = {"REAL_TOPIC": said} if said else {}
    message = StoredMessage(
        topic=topic,
        body=b"x",
        raw_properties=properties.encode_bytes(given),
        queue_id=0,
        queue_offset=QueueOffset(0),
        log_offset=LogOffset(0),
        born_ms=0,
        born_host=Host.parse("10.0.0.3:50001"),
        stored_ms=0,
        store_host=Host.parse("10.0.0.1:10911"),
        long_topic=False,
    )
    assert real_topic(RecordView(encode_record(message))) == real
