"""A message waits where it asks to, and for no longer than anybody could."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.support.sending_parts import SendingParts, put

from rocketpipe.broker.delivery.deferral import Deferral
from rocketpipe.errors import RequestRejected
from rocketpipe.model import properties
from rocketpipe.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.testing.clock import ManualClock

#: Not at the start of a second, so that rounding shows.
NOW_MS = 1_700_000_000_250
DAYS_MS = 3 * 24 * 3600 * 1000


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[SendingParts]:
    parts = SendingParts(tmp_path, ManualClock(NOW_MS))
    yield parts
    parts.abandon()


@pytest.mark.parametrize(
    ("text", "deliver_ms"),
    [
        ("TIMER_DELAY_SEC\x012", NOW_MS + 2000),
        ("TIMER_DELAY_MS\x012", NOW_MS + 2),
        (f"TIMER_DELIVER_MS\x01{NOW_MS + 750}", NOW_MS + 750),
        (f"__STARTDELIVERTIME\x01{NOW_MS + 751}", NOW_MS + 751),
        (f"TIMER_DELIVER_MS\x01{NOW_MS + 5}\x02TIMER_DELAY_SEC\x0160", NOW_MS + 60_000),
        (f"TIMER_DELAY_MS\x01{DAYS_MS}", NOW_MS + DAYS_MS),
    ],
)
def test_a_timed_message_says_when_it_is_due_as_rocketmq_rounds_it(
    parts: SendingParts, text: str, deliver_ms: int
) -> None:
    waiting = parts.deferral.parked(put("orders", queue_id=3, properties=text.encode()))
    assert (waiting.topic, waiting.queue_id) == (TIMER_TOPIC, 0)
    said = properties.decode_bytes(waiting.properties)
    assert (said["REAL_TOPIC"], said["REAL_QID"]) == ("orders", "3")
    # The second before the one in which it is due, if it is due at the start of one.
    assert int(said["TIMER_OUT_MS"]) == (deliver_ms - 1) // 1000 * 1000
    assert any(name in said for name in ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"))


@pytest.mark.parametrize(
    "text",
    ["", "TIMER_DELAY_SEC\x010", "TIMER_DELAY_MS\x01-5", "TIMER_DELIVER_MS\x015", "DELAY\x010"],
)
def test_what_asks_for_no_delay_or_one_that_is_over_is_left_alone(
    parts: SendingParts, text: str
) -> None:
    message = put(properties=text.encode())
    assert parts.deferral.parked(message) == message


def test_what_has_waited_does_not_wait_again(parts: SendingParts) -> None:
    message = put(properties=b"TIMER_DELAY_SEC\x019\x02TIMER_OUT_MS\x011\x02")
    assert parts.deferral.parked(message) == message


def test_a_level_counts_for_more_than_a_timer(parts: SendingParts) -> None:
    waiting = parts.deferral.parked(put(properties=b"TIMER_DELAY_SEC\x019\x02DELAY\x012"))
    assert (waiting.topic, waiting.queue_id) == (SCHEDULE_TOPIC, 1)


@pytest.mark.parametrize(
    "text", [f"TIMER_DELAY_MS\x01{DAYS_MS + 1}", "TIMER_DELAY_SEC\x01soon", "TIMER_DELIVER_MS\x01٣"]
)
def test_a_time_that_is_none_or_too_far_away_is_refused(parts: SendingParts, text: str) -> None:
    with pytest.raises(RequestRejected, match="timer message illegal") as refused:
        parts.deferral.parked(put(properties=text.encode()))
    assert refused.value.code == 13


def test_without_a_limit_any_time_is_waited_for(parts: SendingParts) -> None:
    deferral = Deferral(parts.delays, parts.clock, most_ms=None)
    text = f"TIMER_DELAY_MS\x01{1000 * DAYS_MS}".encode()
    assert deferral.parked(put(properties=text)).topic == TIMER_TOPIC


def test_no_more_wait_than_the_broker_is_meant_to_hold(parts: SendingParts) -> None:
    waiting: list[int] = []
    deferral = Deferral(parts.delays, parts.clock, most_ms=None, waiting=waiting, most_waiting=2)
    timed = put(properties=b"TIMER_DELAY_MS\x015")
    for number in range(2):
        assert deferral.parked(timed).topic == TIMER_TOPIC
        waiting.append(number)
    with pytest.raises(
        RequestRejected, match=r"2 timed messages wait.*maxWaitingTimers"
    ) as refused:
        deferral.parked(timed)
    assert refused.value.code == 2
    # Others are none of them.
    assert deferral.parked(put(properties=b"DELAY\x012")).topic == SCHEDULE_TOPIC
    assert deferral.parked(put(properties=b"")).topic == put().topic
    waiting.pop()
    assert deferral.parked(timed).topic == TIMER_TOPIC
