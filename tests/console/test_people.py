"""Who is known by a cookie, for how long, and how often a password may be wrong."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from rocketpipe.console.answers import Problem
from rocketpipe.console.cluster import Cluster
from rocketpipe.console.people import (
    HELD_MS,
    IDLE_MS,
    MAX_HELD,
    MAX_VISITS,
    MINUTE_MS,
    WRONG_A_MINUTE,
    People,
    Person,
    is_same,
)
from rocketpipe.testing.clock import ManualClock

NO_CLUSTER = cast("Cluster", None)
HERE = "10.0.0.7"


def somebody(name: str = "ana") -> Person:
    return Person(name, may_change=True, may_see_bodies=True, cluster=NO_CLUSTER)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def people(clock: ManualClock) -> People:
    return People(clock)


def test_a_cookie_is_new_each_time_and_long(people: People) -> None:
    cookies = {people.enter(somebody(), HERE)[0] for _ in range(10)}
    assert len(cookies) == 10
    assert all(len(cookie) >= 43 for cookie in cookies)


def test_a_made_up_cookie_is_nobody(people: People) -> None:
    people.enter(somebody(), HERE)
    for cookie in (None, "", "x", "x" * 43):
        assert people.find(cookie, HERE) is None


async def test_who_does_nothing_for_half_an_hour_is_nobody_again(
    people: People, clock: ManualClock
) -> None:
    cookie, _ = people.enter(somebody(), HERE)
    await clock.advance(IDLE_MS - 1)
    assert people.find(cookie, HERE) is not None
    await clock.advance(IDLE_MS - 1)
    assert people.find(cookie, HERE) is not None
    await clock.advance(IDLE_MS)
    assert people.find(cookie, HERE) is None
    assert [each.name for each in people.leave_idle()] == ["ana"]
    assert len(people) == 0


def test_who_has_left_is_nobody(people: People) -> None:
    person = somebody()
    cookie, _ = people.enter(person, HERE)
    assert people.is_here(person)
    assert people.leave(cookie) is person
    assert people.find(cookie, HERE) is None
    assert not people.is_here(person)
    assert people.leave(cookie) is None


def test_a_stolen_cookie_is_of_no_use_elsewhere(people: People) -> None:
    cookie, _ = people.enter(somebody(), HERE)
    assert people.find(cookie, "10.0.0.8") is None
    assert people.find(cookie, HERE) is not None
    cookie, _ = people.enter(somebody(), "2001:db8::1")
    assert people.find(cookie, "2001:db8::2") is not None
    assert people.find(cookie, "2001:db8:0:1::1") is None


def test_there_is_room_for_so_many_and_the_idlest_goes(people: People) -> None:
    first, _ = people.enter(somebody("first"), HERE)
    for _ in range(MAX_VISITS - 1):
        assert people.enter(somebody(), HERE)[1] == []
    _, gone = people.enter(somebody(), HERE)
    assert [each.name for each in gone] == ["first"]
    assert people.find(first, HERE) is None
    assert len(people.everybody()) == MAX_VISITS


async def test_more_wrong_passwords_of_one_address_are_answered_late(
    people: People, clock: ManualClock
) -> None:
    for _ in range(WRONG_A_MINUTE):
        await people.was_wrong("1.1.1.1")
    late = asyncio.ensure_future(people.was_wrong("1.1.1.1"))
    await asyncio.sleep(0)
    await clock.advance(HELD_MS - 1)
    assert not late.done()
    await clock.advance(1)
    with pytest.raises(Problem) as refused:
        await late
    assert refused.value.status == 429
    await people.was_wrong("2.2.2.2")
    await clock.advance(MINUTE_MS)
    await people.was_wrong("1.1.1.1")
    assert people.held == 0


async def test_few_wait_for_their_answer_at_a_time(people: People, clock: ManualClock) -> None:
    for _ in range(WRONG_A_MINUTE):
        await people.was_wrong("1.1.1.1")
    late = [asyncio.ensure_future(people.was_wrong("1.1.1.1")) for _ in range(2 * MAX_HELD)]
    await asyncio.sleep(0)
    assert people.held == MAX_HELD
    assert sum(each.done() for each in late) == MAX_HELD
    await clock.advance(HELD_MS)
    found = await asyncio.gather(*late, return_exceptions=True)
    assert all(isinstance(each, Problem) for each in found)


async def test_wrong_passwords_of_others_hold_nobody_up(people: People) -> None:
    for number in range(200):
        await people.was_wrong(f"10.0.0.{number}")
    await people.was_wrong("1.1.1.1")


async def test_whoever_has_a_network_of_ipv6_has_no_more_tries(
    people: People, clock: ManualClock
) -> None:
    for number in range(WRONG_A_MINUTE):
        await people.was_wrong(f"2001:db8::{number}")
    late = asyncio.ensure_future(people.was_wrong("2001:db8::ffff"))
    await asyncio.sleep(0)
    await clock.advance(HELD_MS)
    with pytest.raises(Problem):
        await late


async def test_a_flood_of_addresses_is_not_remembered_for_ever(people: People) -> None:
    for number in range(5000):
        await people.was_wrong(str(number))
    assert len(people._wrong) <= 1024


def test_secrets_are_compared_as_a_whole() -> None:
    assert is_same("secret", "secret")
    assert not is_same("secre", "secret")
    assert not is_same("ß", "ss")
