from __future__ import annotations

import zlib
from typing import Any

from tests.client.consumer.support.counter import REFUSED, Counter, counter_and_session
from tests.client.consumer.support.sample_messages import again, message

from rocketpipe.client.consumer.handling.retry_limit import RetryLimit
from rocketpipe.client.consumer.handling.send_back import SendBack
from rocketpipe.client.consumer.outcome import DEAD_LETTER
from rocketpipe.client.session import Session
from rocketpipe.model import flags, properties
from rocketpipe.protocol.requests.sending import SendMessage, SendMessageBack

TOPICS: dict[str, dict[str, int]] = {"orders": {"broker-a": 1}, "%RETRY%g": {"broker-a": 1}}


def returns_of(session: Session, said: int | None) -> SendBack:
    return SendBack(session, "g", RetryLimit(session, "g", said, ordered=False))


def only(counter: Counter, kind: type) -> Any:
    (request,) = counter.asked_for(kind)
    return request


async def test_a_message_is_asked_back_by_its_place_in_its_brokers_log() -> None:
    async with counter_and_session(**TOPICS) as (counter, session):
        await session.routes.get("orders")
        returns = returns_of(session, 16)
        assert await returns.send_back(message(7), 4)
        request = only(counter, SendMessageBack)
        assert (request.offset, request.group, request.delay_level) == (7000, "g", 4)
        assert request.origin_topic == "orders"
        assert request.origin_msg_id == message(7).offset_id
        assert (request.max_reconsume_times, request.broker_name) == (16, "broker-a")
        assert not counter.asked_for(SendMessage)


async def test_what_its_broker_refuses_is_sent_to_the_retry_topic() -> None:
    async with counter_and_session(**TOPICS) as (counter, session):
        await session.routes.get("orders")
        counter.refuse["SendMessageBack"] = REFUSED
        body = zlib.compress(b"x" * 100)
        sys_flag = flags.with_compression(0, flags.Compression.ZLIB)
        failed = message(7, body=body, sys_flag=sys_flag, reconsume_times=2, flag=9)
        assert await returns_of(session, 16).send_back(failed)
        request = only(counter, SendMessage)
        assert (request.topic, request.reconsume_times) == ("%RETRY%g", 3)
        assert (request.max_reconsume_times, request.flag) == (16, 9)
        assert (request.body, request.sys_flag) == (body, sys_flag)
        named = properties.decode(request.properties)
        assert named[properties.RETRY_TOPIC] == "orders"
        assert named[properties.ORIGIN_MESSAGE_ID] == failed.offset_id
        assert named[properties.DELAY] == "5"


async def test_a_message_that_came_again_keeps_where_it_came_from() -> None:
    async with counter_and_session(**TOPICS) as (counter, session):
        failed = again(7, "orders", reconsume_times=20)
        assert await returns_of(session, 16).resend(failed)
        named = properties.decode(only(counter, SendMessage).properties)
        assert named[properties.RETRY_TOPIC] == "orders"
        assert named[properties.DELAY] == "18"


async def test_what_is_given_up_is_sent_as_one_that_had_all_its_attempts() -> None:
    async with counter_and_session(**TOPICS) as (counter, session):
        assert await returns_of(session, 16).resend(message(7), DEAD_LETTER)
        assert only(counter, SendMessage).reconsume_times == 17
        counter.asked.clear()
        assert await returns_of(session, 2**31 - 1).resend(message(7), DEAD_LETTER)
        assert only(counter, SendMessage).reconsume_times == 2**31 - 1


async def test_when_nobody_takes_it_the_caller_is_told() -> None:
    async with counter_and_session(**TOPICS) as (counter, session):
        counter.refuse["SendMessageBack"] = counter.refuse["SendMessage"] = REFUSED
        assert not await returns_of(session, 16).send_back(message(7))
        assert counter.count(SendMessage) == 1
    async with counter_and_session() as (_, session):
        assert not await returns_of(session, 16).send_back(message(7))


async def test_who_says_nothing_leaves_the_number_of_retries_to_the_group() -> None:
    async with counter_and_session(**TOPICS) as (counter, session):
        await session.routes.get("orders")
        counter.max_retries = 2
        returns = returns_of(session, None)
        assert not await returns.is_spent(message(7, reconsume_times=1))
        assert await returns.is_spent(message(7, reconsume_times=2))
        assert await returns.send_back(message(7))
        assert only(counter, SendMessageBack).max_reconsume_times is None
        # Brokers of old want a number here.
        assert await returns.resend(message(7), DEAD_LETTER)
        resent = only(counter, SendMessage)
        assert (resent.reconsume_times, resent.max_reconsume_times) == (3, 2)
