"""One broker decides for an application, whoever joins or is away."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.client.producer.support.staging_peers import Peer, Peers

from rocketpipe.client.producer.staging.homes import StageHomes
from rocketpipe.client.producer.staging.stages import Batch, Committer
from rocketpipe.errors import ConnectionLost, NoRoute, RequestRejected
from rocketpipe.protocol.requests.staging import HOMES_NAMESPACE, home_key

BATCH = Batch("app", 7)


def homes(peers: Peers) -> StageHomes:
    return StageHomes(cast("Any", peers))


async def test_the_first_choice_stays_when_another_broker_would_be_first() -> None:
    peers = Peers()
    assert await homes(peers).of("app", ["b", "c"]) == "b"
    assert await homes(peers).of("app", ["a", "b", "c"]) == "b"
    assert await homes(peers).of("app", ["c"]) == "b"
    assert await homes(peers).of("other", ["a", "b"]) == "a"
    kept = {home_key("app"): "b", home_key("other"): "a"}
    assert peers.kept == dict.fromkeys(("n1:9876", "n2:9876"), kept)


async def test_however_many_names_there_are_few_keys_are_kept() -> None:
    peers = Peers()
    found = homes(peers)
    for number in range(1000):
        assert await found.of(f"job-{number}", ["a"]) == "a"
    assert len(peers.kept["n1:9876"]) == 64


async def test_a_home_that_nobody_keeps_is_none() -> None:
    peers = Peers()
    peers.refuses_to_keep = True
    with pytest.raises(RequestRejected, match="read-only"):
        await homes(peers).of("app", ["b"])


async def test_of_two_who_choose_at_once_both_go_by_the_last() -> None:
    peers = Peers()
    peers.on_keep = lambda kept: kept.update({home_key("app"): "a"})
    assert await homes(peers).of("app", ["b"]) == "a"


async def test_a_name_server_that_was_away_learns_it_later() -> None:
    peers = Peers()
    del peers.kept["n1:9876"]
    assert await homes(peers).of("app", ["b"]) == "b"
    assert await homes(peers).of("app", ["a"]) == "b"
    peers.kept["n1:9876"] = {}
    assert await homes(peers).of("app", ["a"]) == "b"
    assert peers.kept["n1:9876"] == {home_key("app"): "b"}


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
    peers.kept = {n: {home_key("app"): "a"} for n in peers.kept}
    let_go = rf"'a' is not registered now: start it; .* -s {HOMES_NAMESPACE} -k {home_key('app')}$"
    with pytest.raises(NoRoute, match=let_go):
        await Committer(cast("Any", peers), "g", 0).commit(BATCH, {"b": {"s": 1}})
    assert not peers.brokers["b"].committed
