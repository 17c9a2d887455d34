"""Questions wait for their replies, so many and so long."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

import pytest
from tests.client.producer.support.broker_parts import World, world

from rocketpipe.client.producer.producer import Producer
from rocketpipe.client.producer.request_reply import OpenRequests
from rocketpipe.client.producer.sending.in_flight import InFlight
from rocketpipe.client.producer.sending.outgoing import Outgoing
from rocketpipe.client.session import Session
from rocketpipe.errors import (
    CallTimeout,
    CompressionError,
    MessageRefused,
    PropertiesError,
    RequestRejected,
)
from rocketpipe.model import properties
from rocketpipe.model.flags import COMPRESSED
from rocketpipe.model.message import Message
from rocketpipe.protocol.requests.callbacks import PushReplyMessage
from rocketpipe.protocol.requests.sending import SendMessage


def pushed(question: str, body: bytes = b"yes", **changes: Any) -> PushReplyMessage:
    """The reply to a question with these properties."""
    named = properties.decode(question)
    correlation_id = named[properties.CORRELATION_ID]
    fields: dict[str, Any] = {
        "producer_group": "g",
        "topic": "c_REPLY_TOPIC",
        "default_topic": "TBW102",
        "default_topic_queue_nums": 1,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": 3,
        "flag": 4,
        "properties": f"CORRELATION_ID\x01{correlation_id}\x02",
        "born_host": "10.0.0.1:5",
        "store_host": "a-name-that-is-none",
        "store_timestamp": 6,
        "body": body,
    }
    return PushReplyMessage(**{**fields, **changes})


async def question(here: World) -> SendMessage:
    await here["a"].arrived.wait()
    here["a"].arrived.clear()
    while not here["a"].taken:  # noqa: ASYNC110 - the broker's list, which knows no event
        await asyncio.sleep(0)
    return here["a"].taken[-1]


async def test_a_reply_is_a_message_and_comes_to_whoever_asked() -> None:
    async with world("a") as here, here.session() as session, Producer(session) as producer:
        asking = asyncio.create_task(producer.request("t", b"hm?", tags="x", timeout_ms=70))
        asked = await question(here)
        named = properties.decode(asked.properties)
        assert (named["REPLY_TO_CLIENT"], named["TTL"]) == (session.client_id, "70")
        (peer,) = here["a"].peers
        body = zlib.compress(b"yes")
        await peer.call(pushed(asked.properties, body, sys_flag=COMPRESSED), 1000)
        reply = await asking
        assert (reply.body, reply.topic, reply.flag, reply.sys_flag) == (
            b"yes",
            "c_REPLY_TOPIC",
            4,
            0,
        )
        assert reply.properties[properties.ARRIVE_TIME] == str(here.clock.now_ms())
        assert str(reply.born_host) == "10.0.0.1:5"
        # A second one has nobody to go to.
        with pytest.raises(RequestRejected, match="too late, or twice"):
            await peer.call(pushed(asked.properties), 1000)


async def test_a_question_waits_its_time_and_no_longer() -> None:
    async with world("a") as here, Producer(here.session()) as producer:
        await producer.send("t", b"x")
        asking = asyncio.create_task(producer.request("t", b"hm?", timeout_ms=70))
        while len(here["a"].taken) < 2:  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0)
        await here.clock.advance(69)
        assert not asking.done()
        await here.clock.advance(1)
        with pytest.raises(CallTimeout, match="no answer to question "):
            await asking


async def test_a_send_that_fails_is_what_is_heard() -> None:
    async with world("a") as here, Producer(here.session()) as producer:
        here["a"].next = [13]
        with pytest.raises(RequestRejected, match="a says no"):
            await producer.request("t", b"hm?")


def outgoing(**parts: Any) -> Outgoing:
    return Outgoing(Message("t", b"x", **parts), "0A" * 16, 5, 100)


async def test_the_table_is_bounded_and_forgets_what_has_ended() -> None:
    session = Session("127.0.0.1:1")
    flying = InFlight(session.clock)
    waiting = OpenRequests(session, flying, max_open=1)
    with waiting.opened(outgoing(), 1000) as reply:
        assert len(waiting) == 1
        with pytest.raises(MessageRefused, match="1 questions wait"), waiting.opened(outgoing(), 5):
            pass
    assert len(waiting) == 0
    assert reply.cancelled()
    with (
        pytest.raises(PropertiesError, match="more than 32767"),
        waiting.opened(outgoing(properties={"p": "v" * 32_690}), 5),
    ):
        pass
    await flying.close()


async def test_a_reply_that_cannot_be_read_is_an_error_of_its_sender() -> None:
    session = Session("127.0.0.1:1")
    flying = InFlight(session.clock)
    waiting = OpenRequests(session, flying)
    out = outgoing()
    with waiting.opened(out, 1000) as reply:
        with pytest.raises(CompressionError):
            waiting.take(pushed(out.properties, b"junk", sys_flag=COMPRESSED))
        assert not waiting.take(pushed("CORRELATION_ID\x01another"))
        assert not reply.done()
    await flying.close()
