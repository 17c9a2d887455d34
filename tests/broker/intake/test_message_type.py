"""Which kind of message something is."""

from __future__ import annotations

import pytest

from rocketpipe.broker.intake.message_type import letter_of, message_type, waiting_type
from rocketpipe.model import properties
from rocketpipe.store.log.puts import Put


def put(topic: str = "orders", sys_flag: int = 0, **given: str) -> Put:
    return Put(topic, 0, b"", properties.encode_bytes(given), 0, sys_flag, 0, bytes(8))


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (put(KEYS="a"), "normal"),
        (put(MYDELAY="1"), "normal"),
        (put(KEYS="a", DELAY="3"), "delay"),
        (put(TIMER_DELIVER_MS="3"), "delay"),
        (put(__SHARDINGKEY="a"), "fifo"),
        (put(sys_flag=1 << 2), "transaction"),
        (put(sys_flag=2 << 2, DELAY="3"), "transaction"),
        (put("SCHEDULE_TOPIC_XXXX"), "delay"),
        (put("rmq_sys_wheel_timer"), "delay"),
        (put("RMQ_SYS_TRANS_HALF_TOPIC"), "transaction"),
    ],
)
def test_topic_flags_and_wishes_say_the_kind(message: Put, kind: str) -> None:
    assert message_type(message) == kind


def test_only_topics_in_which_messages_wait_say_it_by_themselves() -> None:
    assert waiting_type("orders") == "normal"
    assert waiting_type("SCHEDULE_TOPIC_XXXX") == "delay"


def test_a_dead_letter_says_whose_it_is_and_where_it_came_from() -> None:
    assert letter_of(put("%DLQ%shop", RETRY_TOPIC="orders")) == ("shop", "orders")
    assert letter_of(put("%DLQ%shop")) == ("shop", "")
