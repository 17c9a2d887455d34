"""Who leads, by what brokers say and routes show."""

from __future__ import annotations

from rocketpipe.client.leaders import AWAITED_MS, WORD_MS, Leaders, is_moved, with_leader
from rocketpipe.errors import CallTimeout, ConnectionLost, NoRoute, RequestRejected
from rocketpipe.model.route import BrokerAddresses
from rocketpipe.testing import ManualClock


def group(addresses: dict[int, str], name: str = "g") -> BrokerAddresses:
    return BrokerAddresses(cluster="c", broker_name=name, addresses=addresses)


OLD = group({0: "old:1", 1: "new:1", 2: "third:1"})


def test_a_named_leader_takes_the_place_of_the_one_that_refused() -> None:
    leaders = Leaders(ManualClock())
    assert leaders.told("g", "old:1", "new:1")
    assert leaders.seen(OLD).addresses == {0: "new:1", 2: "third:1"}
    assert leaders.seen(group({1: "new:1"})).leader == "new:1"
    assert leaders.seen(group({0: "old:1"}, "other")).leader == "old:1"


def test_the_same_word_is_no_news() -> None:
    leaders = Leaders(ManualClock())
    assert leaders.told("g", "old:1", "new:1")
    assert not leaders.told("g", "old:1", "new:1")
    assert not leaders.told("g", "third:1", "new:1")
    assert not leaders.told("g", "third:1", "old:1")  # it has not heard of it yet
    assert not leaders.told("g", "old:1", "old:1")
    assert leaders.seen(group({0: "third:1"})).leader == "new:1"  # that one refused too


def test_the_latest_word_is_that_of_the_one_who_was_named() -> None:
    leaders = Leaders(ManualClock())
    leaders.told("g", "old:1", "new:1")
    assert leaders.told("g", "new:1", "third:1")
    assert leaders.seen(OLD).leader == "third:1"
    assert leaders.told("g", "third:1", "old:1")  # it leads again
    assert leaders.seen(group({0: "new:1"})).leader == "old:1"
    assert leaders.seen(OLD).leader == "old:1"


async def test_name_servers_are_believed_when_they_have_news_or_enough_time_has_passed() -> None:
    clock = ManualClock()
    leaders = Leaders(clock)
    leaders.told("g", "old:1", "new:1")
    assert leaders.seen(group({0: "third:1"})).leader == "third:1"
    assert leaders.seen(OLD).leader == "old:1"
    leaders.told("g", "old:1", "new:1")
    await clock.advance(WORD_MS)
    assert leaders.seen(OLD).leader == "old:1"


def test_a_named_leader_that_fails_is_given_up() -> None:
    leaders = Leaders(ManualClock())
    leaders.told("g", "old:1", "new:1")
    assert not leaders.failed("g", "old:1")
    assert leaders.failed("g", "new:1")
    assert leaders.seen(OLD).leader == "old:1"


async def test_a_leader_is_awaited_where_there_was_one_lately() -> None:
    clock = ManualClock()
    leaders = Leaders(clock)
    assert not leaders.is_awaited("g")
    leaders.seen(group({1: "new:1"}))
    assert not leaders.is_awaited("g")  # nobody knows that it ever had one
    leaders.seen(OLD)
    await clock.advance(AWAITED_MS)
    leaders.seen(group({1: "new:1"}))
    assert leaders.is_awaited("g")
    await clock.advance(AWAITED_MS - 1)
    leaders.seen(group({1: "new:1"}))
    assert leaders.is_awaited("g")
    await clock.advance(1)
    assert not leaders.is_awaited("g")


def test_no_more_is_known_than_there_is_room_for() -> None:
    leaders = Leaders(ManualClock(), max_names=2)
    for name in "abc":
        leaders.told(name, "old:1", "new:1")
        leaders.seen(group({0: "old:1"}, name))
    assert leaders.seen(group({0: "old:1"}, "a")).leader == "old:1"
    assert leaders.seen(group({0: "old:1"}, "c")).leader == "new:1"


def test_what_tells_of_a_leader_that_is_gone() -> None:
    assert is_moved(ConnectionLost("a:1", "gone"))
    assert is_moved(NoRoute("t", "n:1"))
    assert is_moved(RequestRejected(14, "no"))
    assert is_moved(RequestRejected(11, "a follower ends no transaction"))
    assert not is_moved(RequestRejected(1, "no"))
    assert not is_moved(CallTimeout("a:1", "x", 5))


def test_another_leader_is_listed_once() -> None:
    assert with_leader(OLD, "third:1").addresses == {0: "third:1", 1: "new:1"}
    assert with_leader(OLD, "fourth:1").addresses == {0: "fourth:1", 1: "new:1", 2: "third:1"}
