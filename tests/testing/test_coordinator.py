"""The coordinator in memory has what elections rest on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random

import pytest

from rocketpipe.coordination.coordinator import (
    CoordinatorAway,
    Fenced,
    GroupState,
    IdTaken,
    Member,
    NotInSync,
)
from rocketpipe.testing import ManualClock
from rocketpipe.testing.coordinator import SimCoordinator, SimEnsemble


class World:
    """An ensemble, two ways to it, and what they told."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.ensemble = SimEnsemble(self.clock, Random(1))
        self.one, self.two = self.ensemble.coordinator(), self.ensemble.coordinator()
        self.states: list[GroupState] = []
        self.lost: list[str] = []
        self.one.watch(lambda state: None, lambda: self.lost.append("one"))
        self.two.watch(self.states.append, lambda: self.lost.append("two"))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    sessions = asyncio.create_task(made.ensemble.run())
    await asyncio.sleep(0)
    yield made
    sessions.cancel()


def member(id_: int, address: str = "") -> Member:
    return Member(id=id_, address=address or f"a:{id_}", ha_address=f"h:{id_}")


async def both_joined(world: World) -> GroupState:
    await world.one.join(member(1))
    return await world.two.join(member(2))


async def test_of_two_who_saw_the_same_one_is_fenced(world: World) -> None:
    seen = await both_joined(world)
    lead = await world.one.campaign(seen, frozenset({1}))
    with pytest.raises(Fenced):
        await world.two.campaign(seen, frozenset({2}))
    with pytest.raises(NotInSync):
        await world.two.campaign(lead.state, frozenset({2}))
    grown = await world.one.change_in_sync(lead, lead.state, frozenset({1, 2}))
    with pytest.raises(Fenced):
        await world.one.change_in_sync(lead, lead.state, frozenset({1}))
    assert await world.two.state() == grown


async def test_what_a_session_made_goes_when_it_was_not_heard_of_and_its_holder_learns_it(
    world: World,
) -> None:
    lead = await world.one.campaign(await both_joined(world), frozenset({1}))
    world.one.pause()
    await world.clock.advance(1_100)
    assert world.states[-1].leader is None
    assert world.states[-1].members.keys() == {2}
    assert world.lost == []
    world.one.resume()
    await world.clock.advance(20)
    assert world.lost == ["one"]
    await world.one.join(member(1))
    with pytest.raises(Fenced):
        await world.one.resign(lead)


async def test_who_is_cut_off_gives_its_session_up_by_its_own_clock(world: World) -> None:
    await both_joined(world)
    world.two.cut()
    asked = asyncio.create_task(world.two.state())
    await world.clock.advance(1_100)
    with pytest.raises(CoordinatorAway):
        await asked
    assert world.lost == ["two"]
    world.two.heal()
    assert (await world.two.join(member(2))).members.keys() == {1, 2}


async def test_sessions_outlive_an_outage_of_the_ensemble_that_is_short_enough(
    world: World,
) -> None:
    await both_joined(world)
    world.ensemble.stop()
    await world.clock.advance(900)
    world.ensemble.start()
    await world.clock.advance(900)
    assert world.lost == []
    assert (await world.one.state()).members.keys() == {1, 2}


async def test_an_answer_may_be_lost_although_the_change_was_made() -> None:
    clock = ManualClock()
    ensemble = SimEnsemble(clock, Random(1), late_ms=50)
    one = ensemble.coordinator()
    joining = asyncio.create_task(one.join(member(1)))
    while not joining.done():
        await clock.advance(1)
    asked = asyncio.create_task(one.campaign(await joining, frozenset({1})))
    while not ensemble.elected:
        await clock.advance(1)
    one.cut()
    while not asked.done():
        await clock.advance(1)
    with pytest.raises(CoordinatorAway):
        await asked
    assert ensemble.state().leader is not None


async def test_an_id_at_another_address_is_taken(world: World) -> None:
    await both_joined(world)
    with pytest.raises(IdTaken):
        await world.two.join(member(1, "elsewhere"))
    again: SimCoordinator = world.ensemble.coordinator()
    await again.join(member(1))  # the same place, a new process
    await again.close()
    assert (await world.two.state()).members.keys() == {2}
