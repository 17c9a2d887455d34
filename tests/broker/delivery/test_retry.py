"""What could not be consumed comes again on its ladder, and becomes a dead letter in the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.sending_parts import SendingParts, put

from rocketpipe.broker.delivery.retry import attempts_allowed, explained
from rocketpipe.errors import RequestRejected
from rocketpipe.model import properties
from rocketpipe.model.group import (
    CustomizedRetry,
    ExponentialRetry,
    GroupSettings,
    RetryPolicy,
    RetryPolicyType,
)
from rocketpipe.model.names import HALF_TOPIC, SCHEDULE_TOPIC
from rocketpipe.model.offsets import LogOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.topic import Perm, TopicSettings
from rocketpipe.protocol.requests.sending import SendMessageBack
from rocketpipe.store.log.puts import Put
from rocketpipe.testing.clock import ManualClock

GROUP = GroupSettings(name="g")
NEW, OLD = 479, 120


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[SendingParts]:
    parts = SendingParts(tmp_path, ManualClock())
    yield parts
    parts.abandon()


async def back(
    parts: SendingParts,
    message: Put | None = None,
    *,
    group: GroupSettings = GROUP,
    version: int = NEW,
    **changes: Any,
) -> Put:
    """Store a message, and send it back."""
    end = await parts.intake.put([message or put()])
    last = parts.store.commit_log
    offset = next(at for at, record in last.walk(LogOffset(0), end) if at + len(record) == end)
    fields: dict[str, Any] = {"offset": offset, "group": group.name, "delay_level": 0}
    return await parts.retries.sent_back(SendMessageBack(**{**fields, **changes}), group, version)


def names(message: Put) -> dict[str, str]:
    found = properties.decode_bytes(message.properties)
    return {name: text for name, text in found.items() if not name.startswith("__CRC32")}


async def test_a_message_waits_for_its_group_and_keeps_where_it_came_from(
    parts: SendingParts,
) -> None:
    original = put(
        body=b"zipped", flag=9, sys_flag=1, properties=b"UNIQ_KEY\x01K\x02WAIT\x01true\x02"
    )
    again = await back(parts, original)
    (stored,) = parts.stored("t")
    assert names(again) == {
        "UNIQ_KEY": "K",
        "RETRY_TOPIC": "t",
        "ORIGIN_MESSAGE_ID": stored.offset_id,
        "WAIT": "false",
        "DELAY": "3",
        "REAL_TOPIC": "%RETRY%g",
        "REAL_QID": "0",
    }
    assert (again.topic, again.queue_id, again.reconsume_times) == (SCHEDULE_TOPIC, 2, 1)
    assert (again.body, again.flag, again.sys_flag, again.born_ms) == (b"zipped", 9, 1, 5)
    assert parts.tables.topics.get("%RETRY%g") is not None


async def test_the_first_origin_is_kept(parts: SendingParts) -> None:
    text = b"RETRY_TOPIC\x01first\x02ORIGIN_MESSAGE_ID\x01ID\x02DELAY\x013\x02"
    again = await back(parts, put("%RETRY%g", properties=text, reconsume_times=1))
    assert names(again)["RETRY_TOPIC"] == "first"
    assert names(again)["ORIGIN_MESSAGE_ID"] == "ID"
    assert names(again)["DELAY"] == "4"


async def test_the_ladder_has_a_level_for_each_attempt(parts: SendingParts) -> None:
    levels = [
        (await back(parts, put(reconsume_times=attempt))).queue_id + 1 for attempt in range(16)
    ]
    assert levels == [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]


async def test_a_consumer_may_name_the_level(parts: SendingParts) -> None:
    assert (await back(parts, delay_level=1)).queue_id == 0
    assert (await back(parts, delay_level=99)).queue_id == 17


@pytest.mark.parametrize(
    ("policy", "levels"),
    [
        (RetryPolicy(type=RetryPolicyType.CUSTOMIZED), [3, 4, 5]),
        (
            # 5 s, 10 s, 20 s: the level that lasts at least as long
            RetryPolicy(type=RetryPolicyType.EXPONENTIAL, exponential=ExponentialRetry()),
            [2, 3, 4],
        ),
        (
            RetryPolicy(customized=CustomizedRetry(delays=(1000, 1000, 60_000, 1000))),
            [5, 1, 1],
        ),
    ],
)
async def test_a_groups_policy_chooses_the_level(
    parts: SendingParts, policy: RetryPolicy, levels: list[int]
) -> None:
    group = GroupSettings(name="g", retry_policy=policy)
    found = [
        (await back(parts, put(reconsume_times=attempt), group=group)).queue_id + 1
        for attempt in range(3)
    ]
    assert found == levels


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"message": put(reconsume_times=16)}, "failed attempts: 17 of 17"),
        ({"max_reconsume_times": 0}, "failed attempts: 1 of 1"),
        ({"delay_level": -1}, "the consumer gave up on it"),
    ],
)
async def test_the_last_attempt_makes_a_dead_letter_that_says_why(
    parts: SendingParts, changes: dict[str, Any], reason: str
) -> None:
    dead = await back(parts, **changes)
    (stored,) = parts.stored("t")
    assert (dead.topic, dead.queue_id) == ("%DLQ%g", 0)
    assert dead.reconsume_times == stored.reconsume_times + 1
    assert names(dead) == {
        "UNIQ_KEY": "K1",
        "RETRY_TOPIC": "t",
        "ORIGIN_MESSAGE_ID": stored.offset_id,
        "WAIT": "false",
        "DELAY": "0",
        "DLQ_ORIGIN_TOPIC": "t",
        "DLQ_ORIGIN_MESSAGE_ID": stored.offset_id,
        "DLQ_REASON": reason,
    }
    dead_letters = parts.tables.topics.get("%DLQ%g")
    assert dead_letters is not None
    assert (dead_letters.write_queues, dead_letters.perm) == (1, Perm.READ | Perm.WRITE)


def test_an_old_client_does_not_say_how_often_it_tries() -> None:
    assert attempts_allowed(3, NEW, GROUP) == 3
    assert attempts_allowed(3, 121, GROUP) == 3
    assert attempts_allowed(3, OLD, GROUP) == 16
    assert attempts_allowed(None, NEW, GROUP) == 16


def test_a_dead_letter_without_room_for_a_reason_goes_without() -> None:
    long = put(properties=b"a\x01" + b"x" * 32_700 + b"\x02")
    assert explained(long, "why", topic="t", message_id="id") == long


async def test_a_retry_topic_has_as_many_queues_as_its_group_wants(parts: SendingParts) -> None:
    group = GroupSettings(name="g", retry_queues=4)
    places = {names(await back(parts, group=group))["REAL_QID"] for _ in range(40)}
    assert places == {"0", "1", "2", "3"}


async def test_a_retry_topic_that_may_not_be_written_is_refused(parts: SendingParts) -> None:
    parts.tables.topics.update(TopicSettings(name="%RETRY%g", perm=int(Perm.READ)), 1)
    with pytest.raises(RequestRejected, match=r"the topic\[%RETRY%g\] sending") as refused:
        await back(parts)
    assert refused.value.code == 16


@pytest.mark.parametrize("offset", [3, 10_000, -1])
async def test_a_message_that_is_not_there_is_refused(parts: SendingParts, offset: int) -> None:
    with pytest.raises(RequestRejected, match=f"look message by offset failed, {offset}") as no:
        await back(parts, offset=LogOffset(offset))
    assert no.value.code == 1


@pytest.mark.parametrize("topic", [HALF_TOPIC, SCHEDULE_TOPIC])
async def test_what_no_consumer_can_have_read_is_not_sent_back(
    parts: SendingParts, topic: str
) -> None:
    with pytest.raises(RequestRejected, match="no consumer can have read it"):
        await back(parts, put(topic))


async def test_while_a_group_consumes_in_order_a_send_to_its_retry_topic_is_its_end(
    parts: SendingParts,
) -> None:
    assert parts.retries.gives_up(GROUP, 16, None, NEW) is None
    assert parts.retries.gives_up(GROUP, 17, None, NEW) == ("failed attempts: 17 of 17")
    queue = MessageQueue(topic="t", broker_name="b", queue_id=0)
    parts.locks.lock("g", "me", [queue], parts.clock.monotonic_ms())
    assert parts.retries.gives_up(GROUP, 0, None, NEW) == "a consumer in order gave up on it"
    await parts.clock.advance(60_001)
    assert parts.retries.gives_up(GROUP, 0, None, NEW) is None
