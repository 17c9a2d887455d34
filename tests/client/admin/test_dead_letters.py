"""What a replay is made of; tests/cli has it against real servers."""

from __future__ import annotations

from rocketpipe.client.admin.dead_letters import origin_of, replay_key, resent
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.model import properties
from rocketpipe.model.host import Host
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.record.codec import encode_record

HOST = Host.parse("127.0.0.1:10911")


def letter(log_offset: int, **said: str) -> ReceivedMessage:
    record = encode_record(
        StoredMessage(
            topic="%DLQ%shop",
            body=b"order",
            raw_properties=properties.encode(said).encode(),
            queue_id=0,
            queue_offset=QueueOffset(0),
            log_offset=LogOffset(log_offset),
            born_ms=0,
            born_host=HOST,
            stored_ms=0,
            store_host=HOST,
        )
    )
    return ReceivedMessage(record, MessageQueue(topic="%DLQ%shop", broker_name="a", queue_id=0))


def test_a_replay_has_one_key_however_often_it_is_made() -> None:
    assert replay_key(letter(7)) == replay_key(letter(7, UNIQ_KEY="other"))
    assert replay_key(letter(7)) != replay_key(letter(8))


def test_a_letter_came_from_where_it_says() -> None:
    assert origin_of(letter(1, RETRY_TOPIC="orders")) == "orders"
    assert origin_of(letter(1, RETRY_TOPIC="orders", DLQ_ORIGIN_TOPIC="payments")) == "payments"
    assert origin_of(letter(1)) is None


def test_a_replay_is_the_message_as_it_was_before_it_failed() -> None:
    said = {"a": "b", "TAGS": "t", "RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "ID"}
    of_brokers = {
        "TRAN_MSG": "true",
        "TRANSACTION_CHECK_TIMES": "2",
        "TRAN_PREPARED_QUEUE_OFFSET": "7",
        "REAL_TOPIC": "%RETRY%shop",
        "1ST_POP_TIME": "1",
        "TIMER_DELAY_MS": "60000",
        "TIMER_OUT_MS": "1700000000000",
        "__STARTDELIVERTIME": "1700000000000",
        "CLUSTER": "c",
        "__CRC32#": "0000000000",
    }
    failed = letter(7, **said, **of_brokers)
    to_origin = properties.decode(resent(failed, "orders", "K").properties)
    assert to_origin == {"a": "b", "TAGS": "t", "UNIQ_KEY": "K", "WAIT": "true"}
    to_group = properties.decode(resent(failed, "%RETRY%shop", "K").properties)
    assert to_group == {**said, "UNIQ_KEY": "K", "WAIT": "true"}
