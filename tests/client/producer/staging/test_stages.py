"""Stages at several brokers, and the one that decides."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.client.producer.support.staging_peers import Peer, Peers

from rocketpipe.client.producer.staging.content import Content
from rocketpipe.client.producer.staging.stages import Batch, Committer, StageWriter
from rocketpipe.errors import BatchMismatch, CallTimeout, LostShare, NoRoute, RequestRejected
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
    assert not writer.committed_at
    assert StageWriter(cast("Any", peers), "g", BATCH).name != "s"


async def test_a_commit_goes_to_each_broker_and_happens_once() -> None:
    peers = Peers(a=Peer(), b=Peer(), c=Peer())
    plan = {"b": {"s": 1, "r": 2}, "c": {"s": 3}}
    assert await committer(peers).commit(BATCH, plan) is True
    assert await committer(peers).commit(BATCH, plan) is False
    a, b, c = (peers.brokers[name].committed["app", 7] for name in "abc")
    assert (a.stages, b.stages, c.stages) == ({}, {"s": 1, "r": 2}, {"s": 3})
    assert peers.brokers["c"].prepared[0] == (("app", 7), "a", {"s": 3})
    assert not peers.brokers["a"].prepared, "it decides"
    assert peers.brokers["a"].settled == [("app", 7), ("app", 7)]
    late = StageWriter(cast("Any", peers), "g", BATCH)
    await late.put(late.ticket(queue("b")), b"x", 1, "b:1", 1000)
    assert late.committed_at == {"b"}


async def test_who_commits_again_completes_what_was_decided_and_not_its_own() -> None:
    peers = Peers(a=Peer(), b=Peer())
    await committer(peers)._home("app")
    peers.brokers["a"].then = lambda: peers.brokers["b"].failures.append(
        RequestRejected(1, "dies here")
    )
    with pytest.raises(RequestRejected, match="dies here"):
        await committer(peers).commit(BATCH, {"a": {"old": 1}, "b": {"old": 2}})
    peers.brokers["a"].then = None
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


def contents(**brokers: int) -> dict[str, Content]:
    """What brokers have, so many messages each."""
    return {name: Content(count, 10 * count, 17 * count, {"t"}) for name, count in brokers.items()}


async def test_a_name_that_comes_again_with_something_else_is_an_error() -> None:
    peers = Peers(a=Peer(), b=Peer())
    plan = {"a": {"s": 1}, "b": {"s": 1}}
    assert await committer(peers).commit(BATCH, plan, contents(a=2, b=3)) is True
    # The same messages, spread otherwise.
    assert await committer(peers).commit(BATCH, {"a": {"r": 1}}, contents(a=5)) is False
    with pytest.raises(BatchMismatch, match=r"batch 7 of 'app' .* 5 messages to t then, 4 messag"):
        await committer(peers).commit(BATCH, plan, contents(a=4))
    assert await committer(peers).commit(BATCH, plan, contents(a=4), skip=True) is False
    assert await committer(peers).commit(BATCH, plan) is False, "whoever says nothing"


async def test_another_run_of_a_stream_may_make_something_else_of_a_batch() -> None:
    peers = Peers(a=Peer())
    plan = {"a": {"s": 1}}
    assert await committer(peers).commit(BATCH, plan, contents(a=2), run="r1") is True
    assert await committer(peers).commit(BATCH, plan, contents(a=3), run="r2") is False
    assert await committer(peers).commit(BATCH, plan, contents(a=2), run="r1") is False
    with pytest.raises(BatchMismatch):  # a second sink of the same batch
        await committer(peers).commit(BATCH, plan, contents(a=3), run="r1")


async def test_a_share_that_was_lost_is_replaced_by_the_same_staged_again() -> None:
    peers = Peers(a=Peer(), b=Peer())
    lost = RequestRejected(29, "there is no stage 'old'")
    peers.brokers["a"].then = lambda: peers.brokers["b"].failures.append(lost)
    old = {"a": {"old": 1}, "b": {"old": 2}}
    with pytest.raises(RequestRejected, match="no stage 'old'"):
        await committer(peers).commit(BATCH, old, contents(a=2, b=3))
    new = {"a": {"new": 1}, "b": {"new": 4}}
    peers.brokers["b"].lost = {"old"}
    with pytest.raises(
        LostShare, match=r"'b' has lost its share .*: 3 mess.* 4 messages to t were"
    ):
        await committer(peers).commit(BATCH, new, contents(a=1, b=4))
    assert ("app", 7) not in peers.brokers["b"].committed
    assert await committer(peers).commit(BATCH, new, contents(a=2, b=3)) is False
    assert peers.brokers["b"].committed["app", 7].stages == {"new": 4}


async def test_in_place_of_a_lost_share_anything_may_come_if_the_writer_says_so() -> None:
    peers = Peers(a=Peer(), b=Peer())
    peers.brokers["b"].lost = {"old"}
    with pytest.raises(RequestRejected, match="no stage"):
        await committer(peers).commit(BATCH, {"b": {"old": 2}}, contents(b=3))
    new = {"b": {"new": 4}}
    assert await committer(peers).commit(BATCH, new, contents(b=4), skip=True) is False
    assert peers.brokers["b"].committed["app", 7].stages == {"new": 4}
