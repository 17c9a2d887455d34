"""Where topics live: asked once, remembered, kept fresh."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.client.support.name_server_parts import KnownTopics, cache_of, route, served

from rocketpipe.client.routes import CALM_MS, FRESH_MS, LOST_MS, RouteCache
from rocketpipe.errors import CallTimeout, ConnectionLost, NoRoute, RequestRejected
from rocketpipe.model.route import BrokerAddresses
from rocketpipe.testing import ManualClock, cluster


async def test_a_route_is_asked_for_once_however_many_want_it() -> None:
    known = KnownTopics(t=route(4))
    async with served(known) as address, cache_of(address) as cache:
        await asyncio.gather(*(cache.get("t") for _ in range(10)))
        assert known.asked == ["t"]
        cache.forget("t")
        await asyncio.gather(*(cache.get_for_send("t") for _ in range(10)))
        assert known.asked == ["t", "t"]


async def test_one_who_gives_up_does_not_take_the_answer_from_the_others() -> None:
    known = KnownTopics(t=route(4))
    async with served(known) as address, cache_of(address) as cache:
        hasty, patient = asyncio.create_task(cache.get("t")), asyncio.create_task(cache.get("t"))
        await asyncio.sleep(0)
        hasty.cancel()
        assert (await patient).queues
        assert hasty.cancelled()


async def test_a_route_is_asked_for_again_when_it_is_old() -> None:
    known, clock = KnownTopics(t=route(4)), ManualClock()
    async with served(known) as address, cache_of(address, clock=clock) as cache:
        await cache.get("t")
        await clock.advance(FRESH_MS - 1)
        await cache.get("t")
        assert known.asked == ["t"]
        await clock.advance(1)
        await cache.get("t")
        assert known.asked == ["t", "t"]


async def test_an_unknown_topic_has_the_queues_its_sender_wants_and_the_broker_allows() -> None:
    known = KnownTopics(TBW102=route(8))
    async with served(known) as address, cache_of(address) as cache:
        for wanted, used in ((1, 1), (6, 6), (100, 8)):
            guess = await cache.get_for_send("new", wanted)
            assert len(guess.writable_queues("new")) == used


@pytest.mark.parametrize(("offered", "used"), [(8, 4), (2, 2)])
async def test_an_unknown_topic_is_sent_where_it_would_be_created(offered: int, used: int) -> None:
    known = KnownTopics(TBW102=route(offered))
    async with served(known) as address, cache_of(address) as cache:
        guess = await cache.get_for_send("new")
        assert len(guess.writable_queues("new")) == used
        await cache.get_for_send("new")
        assert known.asked == ["new", "TBW102", "new", "TBW102"]  # a guess is not kept
        assert cache.remembered("new") is None
        # What was sent may be a transaction: the broker that has it must hear from its producer.
        assert set(cache.brokers()) == {broker.broker_name for broker in guess.brokers}


async def test_no_route_at_the_end_is_an_error_that_names_topic_servers_and_what_they_know() -> (
    None
):
    async with served(KnownTopics(news=route(1))) as address, cache_of(address) as cache:
        with pytest.raises(NoRoute, match=rf"'new': asked {address}; .*create it first") as caught:
            await cache.get_for_send("new")
        assert caught.value.hint.startswith(
            f"NameServer {address} knows 1 other topic, the nearest is 'news'; "
        )
        with pytest.raises(NoRoute, match="'new'"):
            await cache.get("new")


async def test_changes_are_told_once_and_another_order_is_none() -> None:
    known, clock, told = KnownTopics(t=route(4, "a", "b")), ManualClock(), list[str]()
    async with (
        served(known) as address,
        cache_of(address, clock=clock, on_changed=told.append) as cache,
    ):
        await cache.get("t")
        assert told == ["t"]
        known.routes["t"] = route(4, "b", "a")
        await cache.refresh("t")
        assert told == ["t"]
        known.routes["t"] = route(4, "b", "c")
        await cache.refresh("t")
        assert told == ["t", "t"]
        assert sorted(cache.brokers()) == ["b", "c"]


async def test_a_route_that_servers_lost_is_used_until_brokers_had_time_to_register() -> None:
    known, clock, told = KnownTopics(t=route(4)), ManualClock(), list[str]()
    async with (
        served(known) as address,
        cache_of(address, clock=clock, on_changed=told.append) as cache,
    ):
        await cache.get("t")
        found = known.routes.pop("t")
        # It was away for long, and knows nothing yet: the time begins with its first answer.
        await clock.advance(10 * LOST_MS)
        assert (await cache.get("t")).queues
        await clock.advance(LOST_MS - 1)
        assert (await cache.get("t")).queues
        known.routes["t"] = found
        await cache.get("t")
        del known.routes["t"]
        await clock.advance(FRESH_MS)
        assert (await cache.get("t")).queues
        await clock.advance(LOST_MS - 1)
        assert (await cache.get("t")).queues
        await clock.advance(1)
        with pytest.raises(NoRoute):
            await cache.get("t")
        assert told == ["t", "t"]
        assert cache.brokers() == {}


async def test_a_topic_that_is_known_to_be_gone_is_dropped_at_once() -> None:
    known, told = KnownTopics(t=route(4)), list[str]()
    async with served(known) as address, cache_of(address, on_changed=told.append) as cache:
        await cache.get("t")
        del known.routes["t"]
        cache.drop("t")
        cache.drop("t")
        assert told == ["t", "t"]
        with pytest.raises(NoRoute):
            await cache.get("t")


async def test_without_name_servers_the_last_known_route_serves_on() -> None:
    clock = ManualClock()
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(served(KnownTopics(t=route(4))))
        async with cache_of(address, clock=clock) as cache:
            known = await cache.get("t")
            await stack.aclose()
            await clock.advance(10 * LOST_MS)
            assert await cache.get("t") == known
            with pytest.raises(ConnectionLost, match=f"{address}: no NameServer answers"):
                await cache.get("unknown")


async def test_no_more_routes_are_kept_than_there_is_room_for() -> None:
    known = KnownTopics(a=route(1), b=route(1), c=route(1))
    async with served(known) as address, cache_of(address, max_routes=2) as cache:
        for topic in ("a", "b", "a", "c"):
            await cache.refresh(topic)
        kept = [topic for topic in "abc" if cache.remembered(topic)]
        assert kept == ["a", "c"]


async def test_a_real_name_server_is_found_behind_one_that_is_gone(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, cache_of("127.0.0.1:1", servers.name_server) as cache:
        assert (await cache.get("TBW102")).brokers[0].leader == servers.broker


async def test_what_is_asked_when_the_cache_closes_ends_with_an_error() -> None:
    async with served(KnownTopics(t=route(1))) as address, cache_of(address) as cache:
        waiting = asyncio.create_task(cache.get("t"))
        await asyncio.sleep(0)
        await cache.close()
        with pytest.raises(ConnectionLost, match="closed meanwhile"):
            await waiting


async def test_a_route_is_renewed_at_once_and_then_after_ever_longer_pauses() -> None:
    known, clock = KnownTopics(t=route(4)), ManualClock()
    async with served(known) as address, cache_of(address, clock=clock) as cache:
        asked_ms: list[int] = []
        for _ in range(7):
            renewing = asyncio.gather(*(cache.renew("t") for _ in range(100)))
            before = len(known.asked)
            await clock.advance(0)  # for tasks to begin
            while "t" in cache._pausing:
                await clock.advance(1)
            await renewing
            assert len(known.asked) == before + 1
            asked_ms.append(clock.monotonic_ms())
        pauses = [later - sooner for sooner, later in pairwise(asked_ms)]
        assert pauses == [100, 200, 400, 400, 400, 400]
        assert not cache.is_calm("t")
        await clock.advance(CALM_MS)
        assert cache.is_calm("t")
        await cache.renew("t")


async def test_a_name_server_that_says_nothing_new_is_followed_by_another() -> None:
    stale, told, clock = KnownTopics(t=route(4)), KnownTopics(t=route(8)), ManualClock()
    async with served(stale) as one, served(told) as other:
        async with cache_of(one, other, clock=clock) as cache:
            await cache.renew("t")
            renewing = asyncio.create_task(cache.renew("t"))
            await asyncio.sleep(0)
            await clock.advance(100)
            await renewing
            assert cache.remembered("t") == route(8)


async def test_what_is_said_of_a_broker_counts_for_all_its_topics() -> None:
    changed: list[str] = []
    known = KnownTopics(t=route(4, "a", "b"), u=route(2, "b", "c"), v=route(2, "c"))
    async with served(known) as address, cache_of(address, on_changed=changed.append) as cache:
        for topic in "tuv":
            await cache.get(topic)
        changed.clear()
        moved = BrokerAddresses(cluster="c", broker_name="b", addresses={0: "127.0.0.1:2"})
        known.routes["t"] = replace(known.routes["t"], brokers=(route(4, "a").brokers[0], moved))
        await cache.refresh("t")
        assert sorted(changed) == ["t", "u"]
        other = cache.remembered("u")
        assert other is not None
        assert [each.leader for each in other.brokers] == ["127.0.0.1:2", "127.0.0.1:1"]


async def test_the_leader_that_a_broker_names_counts_until_name_servers_have_news() -> None:
    known, clock = KnownTopics(t=route(4), u=route(4)), ManualClock()
    async with served(known) as address, cache_of(address, clock=clock) as cache:
        for topic in "tu":
            await cache.get(topic)
        refusal = RequestRejected(14, "not the leader leader=127.0.0.1:2")
        cache.learn("t", "a", "127.0.0.1:1", refusal)
        assert leader(cache, "t") == leader(cache, "u") == "127.0.0.1:2"  # nobody was asked yet
        await cache.renew("t")
        assert leader(cache, "t") == "127.0.0.1:2"
        known.routes["u"] = replace(
            route(4),
            brokers=(BrokerAddresses(cluster="c", broker_name="a", addresses={0: "127.0.0.1:3"}),),
        )
        await cache.refresh("u")
        assert leader(cache, "t") == leader(cache, "u") == "127.0.0.1:3"


async def test_errors_that_say_nothing_of_leaders_renew_nothing() -> None:
    known = KnownTopics(t=route(4))
    async with served(known) as address, cache_of(address) as cache:
        await cache.get("t")
        for code in (1, 2, 13):
            cache.learn("t", "a", "127.0.0.1:1", RequestRejected(code, "no"))
        assert cache.is_calm("t")
        assert known.asked == ["t"]
        cache.learn("t", "a", "127.0.0.1:1", CallTimeout("127.0.0.1:1", "SendMessage", 5))
        await cache.renew("t")
        assert known.asked == ["t", "t"]


def leader(cache: RouteCache, topic: str) -> str | None:
    found = cache.remembered(topic)
    return found.brokers[0].leader if found is not None else None
