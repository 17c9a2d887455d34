"""Questions and replies between real clients, by way of a real broker."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from tests.scenarios.support.members import Servers, both_servers
from tests.waiting import PATIENCE_S, until

from rocketpipe import (
    ConsumeFromWhere,
    Producer,
    PullConsumer,
    PushConsumer,
    blocking,
)
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.errors import CallTimeout, MessageRefused, RequestRejected
from rocketpipe.testing import ManualClock

pytestmark = pytest.mark.scenario

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def answering(servers: Servers) -> PushConsumer:
    consumer = PushConsumer(servers.name_server, group="answering", start=FIRST)

    @consumer.on("questions")
    async def answer(message: ReceivedMessage) -> None:
        await consumer.reply(message, message.body.upper(), properties={"from": "answering"})

    return consumer


async def test_replies_find_whoever_asked_however_many_ask_at_once(tmp_path: Path) -> None:
    async with both_servers(tmp_path) as servers, asyncio.timeout(PATIENCE_S):
        async with Producer(servers.name_server, group="one") as one:
            await one.send("questions", b"creates the topic")
            async with answering(servers), Producer(servers.name_server, group="two") as two:
                asked = {
                    b"%d of %s" % (number, name): producer.request(
                        "questions", b"%d of %s" % (number, name), timeout_ms=15_000, tags="ask"
                    )
                    for name, producer in ((b"one", one), (b"two", two))
                    for number in range(20)
                }
                replies = await asyncio.gather(*asked.values())
                for body, reply in zip(asked, replies, strict=True):
                    assert reply.body == body.upper()
                    assert reply.topic == "DefaultCluster_REPLY_TOPIC"
                    assert reply.user_properties["from"] == "answering"
                    assert "PUSH_REPLY_TIME" in reply.properties
        # Replies are kept as messages too.
        async with PullConsumer(servers.name_server, group="looking", start=FIRST) as looking:
            await looking.subscribe("DefaultCluster_REPLY_TOPIC")
            kept: set[bytes] = set()
            while len(kept) < len(asked):
                kept |= {message.body for message in await looking.poll()}
        assert kept == {body.upper() for body in asked}


async def test_who_replies_too_late_or_to_nobody_hears_so(tmp_path: Path) -> None:
    async with both_servers(tmp_path) as servers, asyncio.timeout(PATIENCE_S):
        clock = ManualClock()
        async with PullConsumer(servers.name_server, group="slow", start=FIRST) as consumer:
            async with Producer(servers.name_server, clock=clock) as producer:
                await producer.send("questions", b"no question")
                await consumer.subscribe("questions")
                asking = asyncio.create_task(producer.request("questions", b"hm?", timeout_ms=5000))
                messages: list[ReceivedMessage] = []
                while len(messages) < 2:
                    messages += await consumer.poll()
                statement, question = sorted(messages, key=lambda message: len(message.body))[::-1]
                with pytest.raises(MessageRefused, match="asks for no reply"):
                    await consumer.reply(statement, b"what?")
                with pytest.raises(MessageRefused, match="empty body"):
                    await consumer.reply(question, b"")
                await clock.advance(5000)
                with pytest.raises(CallTimeout, match="no answer to question "):
                    await asking
                with pytest.raises(RequestRejected, match="too late"):
                    await consumer.reply(question, b"yes")
            with pytest.raises(RequestRejected, match="not found"):
                await consumer.reply(question, b"yes")
            await consumer.reply(question, b"yes", oneway=True)  # nobody says anything


async def test_a_oneway_reply_arrives(tmp_path: Path) -> None:
    async with both_servers(tmp_path, store_replies=False) as servers, asyncio.timeout(PATIENCE_S):
        async with (
            Producer(servers.name_server) as producer,
            PullConsumer(servers.name_server, group="quick", start=FIRST) as consumer,
        ):
            await producer.send("questions", b"creates the topic")
            await consumer.subscribe("questions")
            asking = asyncio.create_task(producer.request("questions", b"hm?", timeout_ms=15_000))
            questions: list[ReceivedMessage] = []
            while not questions:
                questions += [one for one in await consumer.poll() if one.body == b"hm?"]
            await consumer.reply(questions[0], b"yes", oneway=True)
            assert (await asking).body == b"yes"


async def test_blocking_clients_ask_and_reply_too(tmp_path: Path) -> None:
    async with both_servers(tmp_path) as servers, asyncio.timeout(PATIENCE_S):
        async with Producer(servers.name_server) as producer:
            await producer.send("questions", b"creates the topic")
        ready, replied = threading.Event(), threading.Event()

        def answer() -> None:
            with blocking.PullConsumer(servers.name_server, group="g", start=FIRST) as consumer:
                consumer.subscribe("questions")
                ready.set()
                while not replied.is_set():
                    for message in consumer.poll():
                        if message.body == b"hm?":
                            consumer.reply(message, b"yes")
                            replied.set()

        def ask() -> bytes:
            with blocking.Producer(servers.name_server) as producer:
                return producer.request("questions", b"hm?", timeout_ms=15_000).body

        answering = asyncio.create_task(asyncio.to_thread(answer))
        await until(ready.is_set)
        assert await asyncio.to_thread(ask) == b"yes"
        await answering
