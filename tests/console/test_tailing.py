"""A tail that cannot keep up says how many it left out."""

from __future__ import annotations

import asyncio

import pytest
from tests.console.support.shop import Shop

from rocketpipe import Admin, Producer, Session
from rocketpipe.console.tailing import EVERY_MS, ROWS_A_SECOND, SharedEnds, Tail
from rocketpipe.testing.clock import ManualClock

pytestmark = pytest.mark.scenario


async def test_what_is_too_much_is_counted_and_the_newest_are_shown(shop: Shop) -> None:
    async with Session(shop.name_server) as session, Producer(session) as producer:
        tail = Tail(session, "payments", lambda message: message.body)
        assert (await tail.news()).rows == []
        sent = [b"%d" % number for number in range(150)]
        for body in sent:
            await producer.send("payments", body)
        news = await tail.news()
        assert len(news.rows) + news.skipped == len(sent)
        assert 0 < len(news.rows) <= ROWS_A_SECOND * EVERY_MS // 1000
        assert sent[-1] in news.rows
        quiet = await tail.news()
        assert (quiet.rows, quiet.skipped) == ([], 0)
        assert sum(offset for _, _, offset in tail.places) >= len(sent)


async def test_many_who_follow_a_topic_ask_its_brokers_once(shop: Shop) -> None:
    clock = ManualClock()
    async with Session(shop.name_server, clock=clock) as session:
        queues = (await session.routes.get("orders")).readable_queues("orders")
        ends = SharedEnds(session)
        first, *others = await asyncio.gather(*(ends.of("orders", queues) for _ in range(64)))
        assert set(first) == set(queues)
        assert all(each is first for each in others)
        await clock.advance(EVERY_MS)
        again = await ends.of("orders", queues)
        assert again == first
        assert again is not first


async def test_a_topic_of_many_queues_is_looked_at_less_often(shop: Shop) -> None:
    async with Session(shop.name_server) as session, Admin(session) as admin:
        await admin.topics.create("wide", queues=128)
        tail = Tail(session, "wide", lambda message: message.body)
        await tail.news()
        assert tail.every_ms == 128 * 8
