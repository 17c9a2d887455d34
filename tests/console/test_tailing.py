"""A tail that cannot keep up says how many it left out."""

from __future__ import annotations

import pytest
from tests.console.support.shop import Shop

from rocketpipe import Producer, Session
from rocketpipe.console.tailing import EVERY_MS, ROWS_A_SECOND, Tail

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
