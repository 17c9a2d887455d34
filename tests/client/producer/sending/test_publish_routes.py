"""How topics are reached."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.client.producer.support.broker_parts import turned, world

from rocketpipe.client.leaders import AWAITED_MS
from rocketpipe.client.producer.sending.outgoing import Outgoing, plain_header, template
from rocketpipe.client.producer.sending.publish_routes import PublishRoute, PublishRoutes
from rocketpipe.errors import ConnectionLost, NoRoute
from rocketpipe.model.message import Message
from rocketpipe.model.route import BrokerAddresses, BrokerQueues, MessageQueue, TopicRoute


def test_a_line_has_queues_leaders_and_headers() -> None:
    route = TopicRoute(
        queues=(
            BrokerQueues(broker_name="a", read_queues=4, write_queues=2, perm=6),
            BrokerQueues(broker_name="b", read_queues=4, write_queues=2, perm=4),
            BrokerQueues(broker_name="c", read_queues=4, write_queues=2, perm=6),
        ),
        brokers=(
            BrokerAddresses(cluster="c", broker_name="a", addresses={0: "a:1"}),
            BrokerAddresses(cluster="c", broker_name="b", addresses={0: "b:1"}),
            BrokerAddresses(cluster="c", broker_name="c", addresses={1: "c:1"}),
        ),
    )
    line = PublishRoute("g", "t", route)
    assert line.queues == tuple(
        MessageQueue(topic="t", broker_name="a", queue_id=number) for number in range(2)
    )
    assert (line.address("a"), line.address("c"), line.address("z")) == ("a:1", None, None)
    out = Outgoing(Message("t", b"x"), "ID", 1, 10)
    assert line.frame(out, line.queues[1], 7) == out.frame(template("g", "t", "a"), 1, 7)
    ways = [way for way in line.ways if way is not None]
    assert [(way.queue, way.address, way.header) for way in ways] == [
        (queue, "a:1", plain_header(template("g", "t", "a"), queue.queue_id))
        for queue in line.queues
    ]


def test_a_queue_whose_broker_has_no_leader_has_no_way() -> None:
    route = TopicRoute(
        queues=(BrokerQueues(broker_name="a", read_queues=1, write_queues=1, perm=6),),
        brokers=(BrokerAddresses(cluster="c", broker_name="a", addresses={1: "a:1"}),),
        order_conf="a:2",
    )
    line = PublishRoute("g", "t", route)
    assert len(line.queues) == 2
    assert line.ways == (None, None)


async def test_a_topic_is_looked_up_once_and_again_when_its_route_changed() -> None:
    async with world("a", "b") as here, here.session() as session:
        lines = PublishRoutes(session, "g")
        assert lines.known("t") is None
        found = await lines.find("t")
        assert lines.known("t") is found
        assert list(lines.topics) == ["t"]
        here.known.routes["t"] = here.route("a")
        await session.routes.refresh("t")
        lines.drop("t")  # as the session's member does
        assert lines.known("t") is None
        assert {queue.broker_name for queue in (await lines.find("t")).queues} == {"a"}


async def test_the_line_of_a_topic_to_be_created_is_a_guess() -> None:
    async with world("a") as here, here.session() as session:
        here.known.routes["TBW102"] = here.route("a")
        lines = PublishRoutes(session, "g")
        assert len((await lines.find("new")).queues) == 2
        assert lines.known("new") is None


async def test_a_topic_that_may_not_be_written_says_so() -> None:
    async with world("a") as here, here.session() as session:
        held = BrokerQueues(broker_name="a", read_queues=1, write_queues=1, perm=4)
        here.known.routes["t"] = TopicRoute(queues=(held,), brokers=here.route("a").brokers)
        with pytest.raises(NoRoute, match="none of its queues may be written now"):
            await PublishRoutes(session, "g").find("t")


async def test_a_line_follows_its_route() -> None:
    async with world("a", "b") as here, here.session() as session:
        lines = PublishRoutes(session, "g")
        assert lines.current("t") is None
        found = await lines.find("t")
        assert lines.current("t") is found
        here.known.routes["t"] = here.route("b")
        await session.routes.refresh("t")
        newer = lines.current("t")
        assert newer is not None
        assert {queue.broker_name for queue in newer.queues} == {"b"}
        assert lines.known("t") is newer


async def test_queues_whose_broker_was_led_lately_can_be_picked_all_the_same() -> None:
    async with world("a", "b") as here, here.session() as session:
        lines = PublishRoutes(session, "g")
        awaited = session.routes.leaders.is_awaited
        before = (await lines.find("t")).choice(awaited)
        led = here.known.routes["t"]
        here.known.routes["t"] = without_leader(led, "a")
        await session.routes.refresh("t")
        line = lines.current("t")
        assert line is not None
        assert {queue.broker_name for queue in line.queues} == {"b"}
        assert list(line.choice(awaited)) == list(before)  # a key's queue is the same as ever
        await here.clock.advance(AWAITED_MS)
        assert line.choice(awaited) == line.queues


async def test_a_topic_whose_brokers_have_no_leader_has_a_line_without_queues() -> None:
    async with world("a") as here, here.session() as session:
        here.known.routes["t"] = without_leader(here.known.routes["t"], "a")
        lines = PublishRoutes(session, "g")
        line = await lines.find("t")
        assert lines.known("t") is None
        assert line.awaits_leaders
        assert not line.queues
        assert not line.choice(session.routes.leaders.is_awaited)  # nobody ever saw one


def without_leader(route: TopicRoute, name: str) -> TopicRoute:
    brokers = tuple(
        replace(each, addresses={1: "127.0.0.1:1"}) if each.broker_name == name else each
        for each in route.brokers
    )
    return replace(route, brokers=brokers)


async def test_of_too_many_topics_the_oldest_goes() -> None:
    async with world("a") as here, here.session() as session:
        lines = PublishRoutes(session, "g", max_topics=2)
        for topic in ("t", "u", "v"):
            here.known.routes[topic] = here.route("a")
            await lines.find(topic)
        assert list(lines.topics) == ["u", "v"]


async def test_a_broker_is_found_by_any_topic_that_it_holds() -> None:
    async with world("a", "b") as here, here.session() as session:
        lines = PublishRoutes(session, "g")
        await lines.find("t")
        queue = MessageQueue(topic="t", broker_name="b", queue_id=0)
        assert lines.whereabouts("b") == (here["b"].address, queue)
        assert lines.whereabouts("c") is None


async def test_name_servers_that_went_away_are_asked_again_until_the_time_is_over() -> None:
    async with world("a") as here, here.session() as session:
        lines = PublishRoutes(session, "g")
        find, trouble = lines.find, [ConnectionLost(here.name_server, "gone")] * 3

        async def troubled(topic: str) -> PublishRoute:
            if trouble:
                raise trouble.pop()
            return await find(topic)

        lines.find = troubled  # type: ignore[method-assign]
        with pytest.raises(ConnectionLost, match="gone"):  # nobody has ever answered
            await lines.find_in_time("t", 1000)
        assert len(trouble) == 2
        await session.routes.refresh("t")
        found = await turned(here.clock, lines.find_in_time("t", 1000))
        assert found.topic == "t"
        trouble += [ConnectionLost(here.name_server, "gone for good")] * 100
        with pytest.raises(ConnectionLost, match="for good"):
            await turned(here.clock, lines.find_in_time("t", 1000))
