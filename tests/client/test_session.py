"""What producers and consumers share, for as long as one of them needs it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.client.support.name_server_parts import KnownTopics, served
from tests.client.support.session_parts import Listener, Part, listening, route_to
from tests.waiting import until

from rocketpipe.client.session import (
    BEAT_EVERY_MS,
    FIRST_BEAT_MS,
    FIRST_ROUTES_MS,
    ROUTES_EVERY_MS,
    Session,
)
from rocketpipe.errors import (
    GroupTaken,
    InvalidName,
    NoRoute,
    ProcessForked,
    SessionClosed,
    WrongThread,
)
from rocketpipe.model.route import BrokerAddresses, MessageQueue, TopicRoute
from rocketpipe.protocol.requests.callbacks import NotifyConsumerIdsChanged
from rocketpipe.testing import ManualClock, cluster

QUEUE = MessageQueue(topic="t", broker_name="broker-a", queue_id=0)


@dataclass(frozen=True, slots=True)
class World:
    """One NameServer, one broker and a session of them, on a clock that a test turns."""

    session: Session
    clock: ManualClock
    known: KnownTopics
    broker: Listener
    address: str


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    known, broker, clock = KnownTopics(), Listener(), ManualClock()
    async with served(known) as name_server, listening(broker) as address:
        known.routes["t"] = route_to(a={0: address})
        async with Session(name_server, clock=clock) as session:
            await until(lambda: len(clock._sleepers) == 2)  # routes and heartbeats
            yield World(session, clock, known, broker, address)


# Addresses


def test_writes_go_to_the_leader_and_nowhere_without_one() -> None:
    session = Session("127.0.0.1:9876")
    led = BrokerAddresses(cluster="c", broker_name="broker-a", addresses={0: "a:1", 1: "b:1"})
    assert session.leader_of(QUEUE, TopicRoute(brokers=(led,))) == "a:1"
    alone = BrokerAddresses(cluster="c", broker_name="broker-a", addresses={1: "b:1"})
    for route in (TopicRoute(brokers=(alone,)), TopicRoute(), None):
        with pytest.raises(NoRoute, match="'broker-a' has no leader now"):
            session.leader_of(QUEUE, route)


@pytest.mark.parametrize(
    ("addresses", "suggested", "read"),
    [
        ({0: "a", 1: "b"}, 0, "a"),
        ({0: "a", 1: "b"}, 1, "b"),
        ({0: "a", 2: "c"}, 1, "c"),  # the next follower
        ({0: "a"}, 3, "a"),  # any
        ({2: "c", 1: "b"}, 0, "b"),  # no leader: any
    ],
)
def test_reads_go_where_they_are_sent_or_to_another(
    addresses: dict[int, str], suggested: int, read: str
) -> None:
    session = Session("127.0.0.1:9876")
    broker = BrokerAddresses(cluster="c", broker_name="broker-a", addresses=addresses)
    route = TopicRoute(brokers=(broker,))
    assert session.reader_of(QUEUE, suggested, route=route) == read


def test_reads_may_want_one_broker_only() -> None:
    session = Session("127.0.0.1:9876")
    broker = BrokerAddresses(cluster="c", broker_name="broker-a", addresses={0: "a"})
    route = TopicRoute(brokers=(broker,))
    with pytest.raises(NoRoute, match="number 1 cannot be read now"):
        session.reader_of(QUEUE, 1, route=route, only=True)
    with pytest.raises(NoRoute, match="cannot be read now"):
        session.reader_of(QUEUE, 0, route=TopicRoute())


async def test_a_new_queue_begins_and_ends_at_zero(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Session(servers.name_server) as session:
        assert await session.ends_of(QUEUE, servers.broker) == (0, 0)
        queue = MessageQueue(topic="TBW102", broker_name="broker-a", queue_id=0)
        assert await session.ends_of(queue) == (0, 0)


# Its life


def test_nothing_is_needed_to_make_one_but_addresses() -> None:
    session = Session("127.0.0.1:9876", instance="me", unit="u")
    assert session.client_id.endswith("@me@u")
    assert not session.is_open
    with pytest.raises(ValueError, match="not host:port"):
        Session("nowhere")
    with pytest.raises(InvalidName, match="instance"):
        Session("127.0.0.1:9876", instance="a@b")
    with pytest.raises(ValueError, match="timeout_ms is 1 or more"):
        Session("127.0.0.1:9876", timeout_ms=0)


def test_clients_share_the_session_they_are_given() -> None:
    session = Session("127.0.0.1:9876")
    assert Session.of(session) is session
    assert Session.of("127.0.0.1:9876").client_id != session.client_id


async def test_it_lasts_until_the_last_of_its_users_leaves() -> None:
    session = Session("127.0.0.1:9876")
    async with session:
        async with session:
            pass
        assert session.is_open
        session.join(Part(produces=["p"]))
    assert not session.is_open
    with pytest.raises(SessionClosed, match="async with"):
        session.join(Part())
    async with session:
        assert session.is_open  # again
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_child_process_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    session, unopened = Session("127.0.0.1:9876"), Session("127.0.0.1:9876")
    before = unopened.client_id
    async with session:
        with monkeypatch.context() as child:
            parent = os.getpid()
            child.setattr(os, "getpid", lambda: parent + 1)
            with pytest.raises(ProcessForked, match="open clients after the fork"):
                session.join(Part())
            with pytest.raises(ProcessForked):
                async with session:
                    pass
            await session.__aexit__(None, None, None)  # leaves all to the parent
            async with unopened:  # one that was only prepared is a client of its own
                assert unopened.client_id != before
                unopened.join(Part())
        session.join(Part())


# Members


async def test_two_consumers_of_a_group_cannot_share_a_session_but_producers_can() -> None:
    async with Session("127.0.0.1:9876") as session:
        session.join(Part(consumes=["g"], produces=["p"]))
        session.join(Part(produces=["p"]))
        with pytest.raises(GroupTaken, match=r"'g'.*a Session of its own"):
            session.join(Part(consumes=["g"]))


async def test_brokers_hear_of_members_at_once_and_from_time_to_time() -> None:
    async with world() as here:
        here.session.join(Part(consumes=["g"], topics=["t"]))
        await here.session.routes.get("t")
        await here.session.beat()
        assert len(here.broker.beats) == 1
        assert here.broker.beats[0].client_id == here.session.client_id
        await here.clock.advance(FIRST_BEAT_MS)
        await here.broker.beaten(2)
        for beats in (3, 4):
            await until(lambda: len(here.clock._sleepers) == 2)
            await here.clock.advance(BEAT_EVERY_MS)
            await here.broker.beaten(beats)


async def test_routes_of_members_topics_are_fetched_and_followed() -> None:
    async with world() as here:
        member = Part(produces=["p"], topics=["t"])
        here.session.join(member)
        await here.clock.advance(FIRST_ROUTES_MS)
        await until(lambda: member.changed_topics == ["t"])
        here.known.routes["t"] = route_to(a={0: here.address}, b={0: here.address})
        await until(lambda: len(here.clock._sleepers) == 2)
        await here.clock.advance(ROUTES_EVERY_MS)
        await until(lambda: member.changed_topics == ["t", "t"])
        assert sorted(here.session.routes.brokers()) == ["a", "b"]


async def test_a_broker_that_lost_the_connection_hears_of_us_with_the_next_one() -> None:
    async with world() as here:
        here.session.join(Part(consumes=["g"], topics=["t"]))
        await here.session.routes.get("t")
        await here.session.beat()
        here.broker.peers[0].abort()
        await until(lambda: here.session.caller.connected(here.address) is None)
        await here.session.caller.connect(here.address)
        await here.broker.beaten(2)  # and the clock stood still


async def test_a_peer_that_hangs_up_is_not_called_again_and_again() -> None:
    accepted = 0

    def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as rude, world() as here:
        host, port = rude.sockets[0].getsockname()
        here.known.routes["t"] = route_to(a={0: f"{host}:{port}"})
        here.session.join(Part(consumes=["g"], topics=["t"]))
        await here.session.routes.get("t")
        await here.session.beat()
        for _ in range(200):
            await asyncio.sleep(0)
        await here.clock.advance(FIRST_BEAT_MS)
        await until(lambda: accepted == 2)
        for _ in range(200):
            await asyncio.sleep(0)
        assert accepted == 2  # one for each round


async def test_brokers_are_told_of_a_member_that_leaves() -> None:
    async with world() as here:
        one, two = Part(produces=["p"], consumes=["g"]), Part(produces=["p", "q"])
        here.session.join(one)
        here.session.join(two)
        await here.session.routes.get("t")
        await here.session.beat()
        await here.session.leave(one)
        assert here.broker.goodbyes == [(None, "g")]  # the other still produces for p
        await here.session.leave(one)
        await here.session.leave(two)
        assert here.broker.goodbyes == [(None, "g"), ("p", None), ("q", None)]


async def test_members_left_in_a_session_leave_with_it() -> None:
    async with world() as here:
        here.session.join(Part(consumes=["g"]))
        await here.session.routes.get("t")
        await here.session.beat()
    assert here.broker.goodbyes == [(None, "g")]


async def test_a_session_whose_goodbye_is_cut_short_still_lets_all_go() -> None:
    async with world() as here:
        other = Session(str(here.session.name_servers), clock=here.clock)
        await other.__aenter__()
        other.join(Part(consumes=["g"]))
        await other.routes.get("t")
        await other.beat()
        here.broker.hears.clear()
        closing = asyncio.create_task(other.__aexit__(None, None, None))
        await until(lambda: here.broker.goodbyes == [(None, "g")])
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert other.caller.connected(here.address) is None
        here.broker.hears.set()


async def test_what_a_broker_says_reaches_the_member() -> None:
    async with world() as here:
        member = Part(consumes=["g"], topics=["t"])
        here.session.join(member)
        await here.session.routes.get("t")
        await here.session.beat()
        here.broker.peers[0].tell(NotifyConsumerIdsChanged(consumer_group="g"))
        await until(lambda: member.changed_groups == ["g"])


async def test_a_member_that_fails_does_not_keep_others_from_hearing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Part):
        def on_routes_changed(self, topic: str) -> None:
            raise RuntimeError("broken")

    async with world() as here:
        heard = Part()
        here.session.join(Broken())
        here.session.join(heard)
        await here.session.routes.get("t")
        assert heard.changed_topics == ["t"]
    assert "a member failed at a new route" in caplog.text


async def test_a_member_that_fails_does_not_end_what_is_done_for_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Part):
        works = False

        def topics(self) -> Collection[str]:
            if not self.works:
                raise RuntimeError("broken")
            return super().topics()

        def producer_groups(self) -> Sequence[str]:
            if not self.works:
                raise RuntimeError("broken")
            return super().producer_groups()

    async with world() as here:
        member = Broken(produces=["p"], topics=["t"])
        here.session.join(member)
        await here.clock.advance(FIRST_BEAT_MS)
        await until(lambda: "heartbeats not sent" in caplog.text)
        assert "routes not refreshed" in caplog.text
        member.works = True
        await until(lambda: len(here.clock._sleepers) == 2)
        await here.clock.advance(ROUTES_EVERY_MS)
        await until(lambda: member.changed_topics == ["t"])
        await until(lambda: len(here.clock._sleepers) == 2)
        await here.clock.advance(BEAT_EVERY_MS)
        await here.broker.beaten(1)


async def test_topics_without_a_route_are_told_of_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    async with Session("127.0.0.1:1", clock=clock) as session:
        session.join(Part(produces=["p"], topics=["t"]))
        await until(lambda: len(clock._sleepers) == 2)
        await clock.advance(FIRST_ROUTES_MS)
        await until(lambda: "no route yet topic=t reason=127.0.0.1:1" in caplog.text)


async def test_a_connection_to_a_broker_that_nobody_needs_any_more_is_closed() -> None:
    async with world() as here:
        await here.session.caller.connect(here.address)
        for _ in range(6):
            await here.clock.advance(BEAT_EVERY_MS)
        await until(lambda: here.session.caller.connected(here.address) is None)


async def test_another_thread_is_told_that_the_session_is_not_its_own() -> None:
    session = Session("127.0.0.1:1")
    async with session:
        with pytest.raises(WrongThread):
            await asyncio.to_thread(session.check_open)
        session.check_open()
