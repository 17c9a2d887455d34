"""Stages at several brokers, and the one that decides."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.client.producer.staging_peers import Peer, Peers

from rocketpipe.client.producer.stages import Batch, Committer, StageWriter
from rocketpipe.errors import CallTimeout, NoRoute, RequestRejected
from rocketpipe.model.route import MessageQueue

BATCH = Batch("app", 7)


def queue(broker: str) -> MessageQueue:
    return MessageQueue(topic="t", broker_name=broker, queue_id=0)


def committer(peers: Peers) -> Committer:
    return Committer(cast("Any", peers), "g", 5000)


async def test_parts_are_numbered_at_each_broker() -> None:
    peers = Peers(a=Peer(), b=Peer())
    writer = StageWriter(cast("Any", peers), "g", BATCH, "s")
    for name in ("a", "b", "a"):
        ticket = writer.ticket(queue(name))
        await writer.put(ticket, name.encode(), 1, f"{name}:1", 1000)
        await writer.put(ticket, name.encode(), 1, f"{name}:1", 1000)
    assert peers.brokers["a"].parts == {("s", 0): b"a", ("s", 1): b"a"}
    assert writer.parts == {"a": 2, "b": 1}
    assert not writer.is_committed
    assert StageWriter(cast("Any", peers), "g", BATCH).name != "s"


async def test_a_commit_goes_to_each_broker_and_happens_once() -> None:
    peers = Peers(a=Peer(), b=Peer(), c=Peer())
    plan = {"b": {"s": 1, "r": 2}, "c": {"s": 3}}
    assert await committer(peers).commit(BATCH, plan) is True
    assert await committer(peers).commit(BATCH, plan) is False
    a, b, c = (peers.brokers[name].committed["app", 7] for name in "abc")
    assert (a.stages, b.stages, c.stages) == ({}, {"s": 1, "r": 2}, {"s": 3})
    late = StageWriter(cast("Any", peers), "g", BATCH)
    await late.put(late.ticket(queue("b")), b"x", 1, "b:1", 1000)
    assert late.is_committed


async def test_who_commits_again_completes_what_was_decided_and_not_its_own() -> None:
    peers = Peers(a=Peer(), b=Peer())
    peers.brokers["b"].failures = [RequestRejected(1, "dies here")]
    with pytest.raises(RequestRejected, match="dies here"):
        await committer(peers).commit(BATCH, {"a": {"old": 1}, "b": {"old": 2}})
    assert await committer(peers).commit(BATCH, {"b": {"new": 5}}) is False
    assert peers.brokers["b"].committed["app", 7].stages == {"old": 2}
    # Where the first decided that there is nothing elsewhere, there is nothing.
    await committer(peers).commit(Batch("app", 8), {"a": {"old": 1}})
    await committer(peers).commit(Batch("app", 8), {"b": {"new": 5}})
    assert ("app", 8) not in peers.brokers["b"].committed


async def test_a_broker_that_does_not_answer_is_asked_again() -> None:
    peers = Peers(a=Peer())
    peers.brokers["a"].failures = [CallTimeout("a:1", "x", 1), RequestRejected(14, "full")]
    committing = asyncio.create_task(committer(peers).commit(BATCH, {"a": {"s": 1}}))
    while not committing.done():
        await asyncio.sleep(0)
        await peers.clock.advance(100)
    assert await committing
    assert peers.brokers["a"].asked == 3


async def test_brokers_that_do_not_stage_say_so() -> None:
    peers = Peers(a=Peer(), b=Peer())
    assert await committer(peers).is_served()
    peers.brokers["b"].failures = [RequestRejected(3, "no such request")]
    assert not await committer(peers).is_served()
    peers.brokers["b"].failures = [RequestRejected(1, "trouble")]
    with pytest.raises(RequestRejected, match="trouble"):
        await committer(peers).is_served()
    with pytest.raises(NoRoute, match="no broker is registered"):
        await committer(Peers()).is_served()
