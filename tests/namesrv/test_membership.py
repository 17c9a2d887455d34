"""Brokers come, stay and go, with the route table and the watch in step."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from rocketpipe.model.topic import DataVersion, TopicSettings
from rocketpipe.namesrv.config import LiveSettings, NamesrvConfig
from rocketpipe.namesrv.membership import Membership, SmallestIdChanged
from rocketpipe.namesrv.route_table import Announcement, RegistrationRefused, RouteTable
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.testing import ManualClock


class Peer(PeerConnection):
    """A connection that was never made; it notes that it was closed."""

    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Room:
    """A membership and what it is made of."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.routes = RouteTable(LiveSettings(NamesrvConfig(**settings)))
        self.changes: list[SmallestIdChanged] = []
        self.membership = Membership(self.routes, self.clock, self.changes.append)

    def register(
        self,
        peer: PeerConnection | None = None,
        *,
        number: int = 0,
        address: str | None = None,
        topics: tuple[str, ...] = ("t", "u"),
        timeout_ms: int | None = None,
        **more: Any,
    ) -> None:
        told = Announcement(
            cluster="c",
            name="broker-a",
            broker_id=number,
            address=address or f"h:{number}",
            topics={topic: TopicSettings(name=topic) for topic in topics},
            **more,
        )
        self.membership.register(told, peer or Peer(), timeout_ms)

    def there(self) -> dict[int, str]:
        return dict(self.routes.members("broker-a"))


async def test_a_silent_broker_expires_and_its_connection_is_closed() -> None:
    room, peer, other = Room(), Peer(), Peer()
    room.register(peer, number=0, timeout_ms=10_000)
    room.register(other, number=1)
    await room.clock.advance(10_000)
    room.membership.expire()
    assert room.there() == {0: "h:0", 1: "h:1"}
    await room.clock.advance(1)
    room.membership.expire()
    assert room.there() == {1: "h:1"}
    assert (peer.closed, other.closed) == (True, False)


async def test_a_heartbeat_from_its_cluster_keeps_a_broker() -> None:
    room = Room()
    room.register(timeout_ms=10_000)
    await room.clock.advance(9_000)
    assert room.membership.beat("other", "h:0") is None
    assert room.membership.beat("c", "nobody:1") is None
    member = room.membership.beat("c", "h:0")
    assert member is not None
    assert member.name == "broker-a"
    await room.clock.advance(9_000)
    room.membership.expire()
    assert room.there() == {0: "h:0"}


def test_a_broker_is_lost_with_the_connection_it_registered_on_last() -> None:
    room, first, second = Room(), Peer(), Peer()
    room.register(first)
    room.register(second)
    room.membership.lose(first)
    assert room.there() == {0: "h:0"}
    room.membership.lose(second)
    assert room.there() == {}
    room.membership.lose(second)


def test_a_goodbye_is_heard_from_the_broker_it_names() -> None:
    room, peer = Room(), Peer()
    room.register(peer)
    room.membership.unregister("other", "broker-a", "h:0")
    room.membership.unregister("c", "broker-b", "h:0")
    room.membership.unregister("c", "broker-a", "nobody:1")
    assert room.there() == {0: "h:0"}
    room.membership.unregister("c", "broker-a", "h:0")
    assert room.there() == {}
    room.membership.lose(peer)


def test_a_displaced_process_is_not_watched_any_more() -> None:
    room, old, new = Room(), Peer(), Peer()
    room.register(old, address="h:1")
    room.register(new, address="h:2")
    room.membership.lose(old)
    assert room.there() == {0: "h:2"}


def test_an_older_process_is_ignored_and_its_end_changes_nothing() -> None:
    room, newer, older = Room(), Peer(), Peer()
    room.register(newer, address="h:1", version=DataVersion(state_version=2))
    room.register(older, address="h:2", version=DataVersion(state_version=1))
    room.membership.lose(older)
    assert room.there() == {0: "h:1"}


async def test_a_known_broker_whose_registration_is_refused_stays() -> None:
    room = Room(max_topic_routes=2)
    room.register(timeout_ms=10_000)
    await room.clock.advance(9_000)
    with pytest.raises(RegistrationRefused):
        room.register(topics=("t", "u", "v"), version=DataVersion(counter=2))
    await room.clock.advance(9_000)
    room.membership.expire()
    assert room.there() == {0: "h:0"}


def test_who_has_the_smallest_id_is_told_on_coming_and_where_followers_act_on_going() -> None:
    for acting in (True, False):
        room, leader = Room(), Peer()
        room.register(number=1, acting_leader=acting)
        assert room.changes == []
        room.register(leader, number=0, ha_address="h:9", acting_leader=acting)
        came = SmallestIdChanged("broker-a", None, "h:9")
        assert room.changes == [came]
        room.membership.lose(leader)
        gone = [SmallestIdChanged("broker-a", "h:0", None)] if acting else []
        assert room.changes == [came, *gone]


def test_the_last_of_a_name_leaves_nobody_to_tell() -> None:
    room, peer = Room(), Peer()
    room.register(peer, acting_leader=True)
    room.membership.lose(peer)
    assert room.changes == []


def test_names_that_are_left_out_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    room = Room()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            room.register(topics=("t", "../../x"))
    (line,) = caplog.messages
    assert line == "topics left out for their names broker=broker-a count=1 names='../../x'"


def test_a_broker_that_flaps_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    room = Room()
    with caplog.at_level(logging.INFO):
        for _ in range(50):
            peer = Peer()
            room.register(peer)
            room.membership.lose(peer)
    assert len(caplog.messages) < 10
    assert caplog.messages[0] == (
        "broker registered name=broker-a id=0 address=h:0 cluster=c topics=2"
    )
    assert caplog.messages[1] == "broker lost name=broker-a id=0 address=h:0 cluster=c"
