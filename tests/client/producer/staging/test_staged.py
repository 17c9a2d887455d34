"""What is sent inside a batch's block goes in parts, and is committed at its end."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from tests.client.producer.support.staging_peers import Peer, Peers
from tests.client.support.moving_broker import moving_broker
from tests.pipeline.support.sinks import read_topic

from rocketpipe import Producer
from rocketpipe.client.producer.composing import Composer
from rocketpipe.client.producer.selectors import by_hash
from rocketpipe.client.producer.sending.delivery import Delivery
from rocketpipe.client.producer.sending.in_flight import InFlight
from rocketpipe.client.producer.sending.outgoing import Checks
from rocketpipe.client.producer.sending.publish_routes import PublishRoute, PublishRoutes
from rocketpipe.client.producer.sending.queue_choice import QueueChoice
from rocketpipe.client.producer.staging import staged
from rocketpipe.client.producer.staging.staged import StagedSends
from rocketpipe.client.producer.staging.stages import Batch
from rocketpipe.errors import InvalidName, SessionClosed
from rocketpipe.model.message import Message
from rocketpipe.model.route import BrokerAddresses, BrokerQueues, TopicRoute
from rocketpipe.record.batch import decode_batch

ROUTE = TopicRoute(
    queues=(BrokerQueues(broker_name="a", read_queues=4, write_queues=4, perm=6),),
    brokers=(BrokerAddresses(cluster="c", broker_name="a", addresses={0: "a:1"}),),
)


class Known(Delivery):
    """Knows the way to every topic."""

    async def line(self, topic: str, timeout_ms: int) -> PublishRoute:
        return PublishRoute("g", topic, ROUTE)


def sends(peers: Peers, number: int = 0) -> StagedSends:
    session, clock = cast("Any", peers), peers.clock
    intake = Composer(Checks(max_bytes=1 << 20), session)
    intake.open()
    choice = QueueChoice(None, clock, random.Random(1))
    delivery = Known(session, PublishRoutes(session, "g"), choice, InFlight(clock))
    return StagedSends(session, delivery, intake, "g", Batch("app", number))


def bodies(peer: Peer) -> list[bytes]:
    return [entry.body for part in peer.parts.values() for entry in decode_batch(part)]


async def test_messages_go_in_large_parts_and_are_committed() -> None:
    peer = Peer()
    async with sends(Peers(a=peer)) as batch:
        for number in range(1000):
            await batch.send("t", b"%1000d" % number)
    assert [int(body) for body in bodies(peer)] == list(range(1000))
    assert len(peer.parts) < 10
    [named] = peer.committed.values()
    assert list(named.stages.values()) == [len(peer.parts)]
    assert batch.was_committed is False


async def test_messages_of_one_order_key_stay_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "HELD_BYTES", 5000)
    peer = Peer()
    async with sends(Peers(a=peer)) as batch:
        for number in range(200):
            await batch.send(Message("t", b"%100d" % number), order_by=f"k{number % 9}")
    found = [int(body) for body in bodies(peer)]
    assert sorted(found) == list(range(200))
    for key in range(9):
        ordered = [number for number in found if number % 9 == key]
        assert ordered == sorted(ordered)
    queues = PublishRoute("g", "t", ROUTE).queues
    assert len({by_hash(queues, Message("t", b"x"), f"k{key}") for key in range(9)}) > 1


async def test_a_batch_that_fails_commits_nothing_and_one_that_is_repeated_nothing_more() -> None:
    peer = Peer()
    with suppress(LookupError):
        async with sends(Peers(a=peer)) as failing:
            await failing.send("t", b"x")
            raise LookupError
    assert (peer.committed, failing.was_committed) == ({}, None)
    for repeated in (False, True):
        async with sends(Peers(a=peer)) as batch:
            await batch.send("t", b"x" * staged.PART_BYTES)
            await batch.send("t", b"y")
        assert batch.was_committed is repeated
    assert len(peer.committed) == 1
    assert len(peer.parts) == 2


async def test_what_cannot_be_sent_is_refused_at_once() -> None:
    batch = sends(Peers(a=Peer()))
    with pytest.raises(SessionClosed):
        await batch.send("t", b"x")
    async with batch:
        with pytest.raises(InvalidName):
            await batch.send("no good", b"x")


@pytest.mark.scenario
async def test_a_batch_goes_on_at_the_next_leader(tmp_path: Path) -> None:
    async with moving_broker(tmp_path, t=4) as moving, Producer(moving.name_server) as producer:
        async with producer.staged("app", 1) as batch:
            for number in range(20):
                await batch.send("t", b"%d" % number, order_by=number)
            await batch._flush(next(iter(batch._parts)))  # some are at the old one
            await moving.register(1, "127.0.0.1:1")  # a follower, who stays in the routes
            await moving.stop()
            going_on = asyncio.create_task(moving.start_and_lead())
            for number in range(20, 40):
                await batch.send("t", b"%d" % number, order_by=number)
        await going_on
        found = await read_topic(moving.name_server, "t")
        assert sorted(int(each.body) for each in found) == list(range(40))
