"""One broker decides for an application, whoever joins or is away."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.client.producer.staging_peers import Peer, Peers

from rocketpipe.client.producer.stage_homes import StageHomes
from rocketpipe.client.producer.stages import Batch, Committer
from rocketpipe.errors import ConnectionLost, NoRoute

BATCH = Batch("app", 7)


def homes(peers: Peers) -> StageHomes:
    return StageHomes(cast("Any", peers))


async def test_the_first_choice_stays_when_another_broker_would_be_first() -> None:
    peers = Peers()
    assert await homes(peers).of("app", ["b", "c"]) == "b"
    assert await homes(peers).of("app", ["a", "b", "c"]) == "b"
    assert await homes(peers).of("app", ["c"]) == "b"
    assert await homes(peers).of("other", ["a", "b"]) == "a"
    assert peers.kept == {n: {"app": "b", "other": "a"} for n in ("n1:9876", "n2:9876")}


async def test_a_name_server_that_was_away_learns_it_later() -> None:
    peers = Peers()
    del peers.kept["n1:9876"]
    assert await homes(peers).of("app", ["b"]) == "b"
    assert await homes(peers).of("app", ["a"]) == "b"
    peers.kept["n1:9876"] = {}
    assert await homes(peers).of("app", ["a"]) == "b"
    assert peers.kept["n1:9876"] == {"app": "b"}


async def test_without_a_name_server_nothing_is_decided() -> None:
    peers = Peers()
    peers.kept.clear()
    with pytest.raises(ConnectionLost):
        await homes(peers).of("app", ["b"])


async def test_a_batch_is_not_decided_twice_when_a_broker_with_a_lower_name_joins() -> None:
    b, c = Peer(), Peer()
    assert await Committer(cast("Any", Peers(b=b, c=c)), "g", 5000).commit(BATCH, {"b": {"s": 1}})
    before = Peers(b=b, c=c)
    await homes(before).of("app", ["b", "c"])
    joined = Peers(a=Peer(), b=b, c=c)
    joined.kept = before.kept
    again = Committer(cast("Any", joined), "g", 5000)
    assert await again.commit(BATCH, {"a": {"t": 1}, "c": {"t": 2}}) is False
    assert not joined.brokers["a"].committed
    assert not c.committed


async def test_while_the_one_that_decides_is_away_nobody_decides() -> None:
    peers = Peers(b=Peer())
    peers.kept = {n: {"app": "a"} for n in peers.kept}
    with pytest.raises(NoRoute, match=r"broker 'a' is not registered now: start it"):
        await Committer(cast("Any", peers), "g", 0).commit(BATCH, {"b": {"s": 1}})
    assert not peers.brokers["b"].committed
