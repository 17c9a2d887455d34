from __future__ import annotations

from typing import Any

import pytest
from tests.client.consumer.support.counter import REFUSED, counter_and_session

from rocketpipe.client.consumer.group.subscriptions import Subscriptions
from rocketpipe.client.consumer.handling.handlers import Handlers, handler
from rocketpipe.client.session import Session
from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.requests.clients import CheckClientConfig
from rocketpipe.testing.clock import ManualClock


def subscriptions(session: Session, *, retries: bool = True, **chosen: Any) -> Subscriptions:
    made = Handlers(1, "test")
    plain: dict[str, Any] = {"tags": None, "sql": None, "batch": None}
    made.add(handler("orders", print, **(plain | chosen)))
    return Subscriptions(session, "g", made, retries=retries)


async def test_a_group_reads_what_its_handlers_want_and_what_comes_again() -> None:
    session = Session("127.0.0.1:1")
    assert subscriptions(session).topics == ["orders", "%RETRY%g"]
    assert subscriptions(session, retries=False).topics == ["orders"]
    told = {one.topic: one for one in subscriptions(session, tags="a || b")}
    assert told["orders"].tags == frozenset({"a", "b"})
    assert told["%RETRY%g"].expression == "*"


async def test_pulls_name_the_version_that_brokers_were_told() -> None:
    clock = ManualClock()
    mine = subscriptions(Session("127.0.0.1:1", clock=clock))
    first = mine.told_of("orders").version
    assert first == clock.now_ms()
    await clock.advance(500)
    mine.renew("orders")
    assert next(iter(mine)).version == first + 500
    assert mine.told_of("orders").version == first
    mine.told("orders")
    assert mine.told_of("orders").version == first + 500
    mine.renew("orders")
    assert next(iter(mine)).version == first + 501, "it grows even while the clock stands still"


async def test_a_broker_is_asked_whether_it_can_choose_by_sql() -> None:
    async with counter_and_session(orders={"broker-a": 1}) as (counter, session):
        await subscriptions(session, tags="a").find()
        assert not counter.asked_for(CheckClientConfig)
        await subscriptions(session, sql="price > 10").find()
        (asked,) = counter.asked_for(CheckClientConfig)
        assert isinstance(asked, CheckClientConfig)
        assert asked.check.subscription.expression == "price > 10"
        counter.refuse["CheckClientConfig"] = REFUSED
        with pytest.raises(RequestRejected):
            await subscriptions(session, sql="price > 10").find()


async def test_a_topic_that_is_nowhere_yet_is_no_error() -> None:
    async with counter_and_session() as (counter, session):
        mine = subscriptions(session, sql="price > 10")
        await mine.find()
        await mine.find_retries()
        assert not counter.asked_for(CheckClientConfig)
