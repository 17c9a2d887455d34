"""Who leads, with a real NameServer and what replicas really answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial

import pytest
from tests.broker.support.group_status import following, leading

from rocketpipe.broker.handlers.replication import ReplicationHandlers
from rocketpipe.broker.replication.status import GroupView, ReplicationStatus
from rocketpipe.cli.children.events import Event
from rocketpipe.cli.cluster.layout import Kind, Mode, Place, laid_out
from rocketpipe.cli.cluster.roles import LEADER, Progress, Roles
from rocketpipe.errors import RocketPipeError
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.requests.routes import RegisterBroker, UnregisterBroker
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.router import Router
from rocketpipe.remoting.server import Server
from rocketpipe.testing import ManualClock


class World:
    """Two replicas that can be made to lead and to follow."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.layout = laid_out(
            None, mode=Mode.ELECTED, replicas=2, zookeepers=None, session_ms=None
        )
        self.places = {place.name: place for place in self.layout.of_kind(Kind.BROKER)}
        self.clock = ManualClock()
        self.status: dict[str, ReplicationStatus] = dict.fromkeys(self.places, following())
        self.unable: set[str] = set()
        self.told: list[Event] = []
        self.namesrv = AsyncExitStack()

    async def open(self) -> None:
        await self._stack.enter_async_context(self.namesrv)
        await self.start_namesrv()
        self._caller = await self._stack.enter_async_context(Caller())
        for name, place in self.places.items():
            view = GroupView(partial(self.status.__getitem__, name))
            handlers = ReplicationHandlers("c", place.group, place.address, view, self.clock)
            server = await self._stack.enter_async_context(Server.bound("127.0.0.1", place.port))
            await self._stack.enter_async_context(server.serving(Router(handlers).answer))
        self.roles = Roles(
            self.layout,
            self._caller,
            self.clock,
            able=lambda name: name not in self.unable,
            tell=self.told.append,
        )

    async def start_namesrv(self) -> None:
        port = self.layout.of_kind(Kind.NAMESRV)[0].port
        await self.namesrv.enter_async_context(name_server(NamesrvConfig(port=port)))

    async def leads(self, name: str, epoch: int) -> None:
        place = self.places[name]
        addresses = {number: each.address for number, each in enumerate(self.places.values(), 1)}
        self.status[name] = leading(epoch=epoch, addresses=addresses, id=_number(place))
        await self.register(name, 0)

    async def register(self, name: str, broker_id: int) -> None:
        place = self.places[name]
        request = RegisterBroker(
            broker_name=place.group,
            broker_addr=place.address,
            cluster_name="c",
            ha_server_addr="",
            broker_id=broker_id,
        )
        await self._caller.call(self.layout.name_server, request)

    async def leave(self, name: str) -> None:
        place = self.places[name]
        request = UnregisterBroker(
            broker_name=place.group,
            broker_addr=place.address,
            cluster_name="c",
            broker_id=0,
        )
        await self._caller.call(self.layout.name_server, request)

    async def look(self) -> list[str]:
        """Look once, as it is done again and again; gives what was told."""
        before = len(self.told)
        await self.roles.look()
        return [event.text for event in self.told[before:]]


def _number(place: Place) -> int:
    return int(place.name.rpartition("-")[2])


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        made = World(stack)
        await made.open()
        yield made


async def test_the_first_leader_is_told_and_that_there_is_one(world: World) -> None:
    assert await world.look() == []
    assert not world.roles.complete.is_set()
    await world.clock.advance(1_500)
    await world.register("broker-a-2", 2)
    await world.leads("broker-a-1", 1)
    assert await world.look() == ["broker-a-1 leads, epoch 1, after 1.5 s"]
    assert world.roles.complete.is_set()
    assert await world.look() == []
    assert world.roles.role("broker-a-1", Progress()) == LEADER
    assert world.roles.role("broker-a-2", Progress()) == "follower"


async def test_one_that_is_not_registered_follows_or_is_nothing(world: World) -> None:
    await world.leads("broker-a-1", 1)
    await world.look()
    assert world.roles.role("broker-a-2", Progress()) is None
    assert world.roles.role("broker-a-2", Progress(leads=False)) == "follower"
    assert world.roles.role("broker-a-2", Progress(leads=True)) is None


async def test_another_leader_is_told_with_how_long_there_was_none(world: World) -> None:
    await world.leads("broker-a-1", 1)
    await world.look()
    world.roles.hit("broker-a-2")  # it does not lead, so nothing is lost with it
    world.roles.hit("broker-a-1")
    world.unable.add("broker-a-1")
    await world.clock.advance(1_000)
    world.roles.hit("broker-a-1")  # it was lost before
    assert await world.look() == []  # the NameServer still names it
    await world.clock.advance(400)
    await world.leads("broker-a-2", 2)
    assert await world.look() == ["broker-a-2 leads, epoch 2, after 1.4 s"]
    assert world.roles.leader("broker-a") == "broker-a-2"


async def test_one_that_was_paused_and_not_replaced_leads_again(world: World) -> None:
    await world.leads("broker-a-1", 1)
    await world.look()
    world.roles.hit("broker-a-1")
    world.unable.add("broker-a-1")
    assert await world.look() == []
    await world.clock.advance(2_000)
    world.unable.clear()
    assert await world.look() == ["broker-a-1 leads, epoch 1, after 2.0 s"]


async def test_one_that_steps_down_is_told(world: World) -> None:
    await world.leads("broker-a-1", 1)
    await world.look()
    await world.leave("broker-a-1")
    assert await world.look() == ["broker-a-1 leads no longer"]
    assert await world.look() == []
    await world.clock.advance(100)
    await world.leads("broker-a-2", 2)
    assert await world.look() == ["broker-a-2 leads, epoch 2, after 0.1 s"]


async def test_one_that_is_still_registered_and_says_that_it_does_not_lead_is_believed(
    world: World,
) -> None:
    await world.leads("broker-a-1", 1)
    await world.look()
    world.status["broker-a-1"] = following()
    assert world.roles.role("broker-a-1", Progress(leads=False)) == "follower"
    assert await world.look() == ["broker-a-1 leads no longer"]
    assert await world.look() == []
    await world.clock.advance(3_000)
    await world.leads("broker-a-1", 2)
    assert await world.look() == ["broker-a-1 leads, epoch 2, after 3.0 s"]


async def test_a_name_server_that_was_away_is_not_believed_before_it_knows(world: World) -> None:
    await world.leads("broker-a-1", 1)
    await world.look()
    await world.namesrv.aclose()
    with pytest.raises(RocketPipeError):
        await world.roles.look()
    assert world.roles.role("broker-a-1", Progress(leads=True)) == LEADER
    await world.start_namesrv()
    assert await world.look() == []
    await world.register("broker-a-1", 0)
    assert await world.look() == []
    await world.leave("broker-a-1")
    assert await world.look() == ["broker-a-1 leads no longer"]


async def test_brokers_say_how_far_they_are(world: World) -> None:
    await world.leads("broker-a-1", 3)
    world.status["broker-a-1"] = leading(
        addresses={number: each.address for number, each in enumerate(world.places.values(), 1)},
        in_sync=frozenset({1}),
    )
    gone = Place(kind=Kind.BROKER, name="gone", port=1)
    found = await world.roles.progress([*world.places.values(), gone])
    first = world.places["broker-a-1"].address
    assert found["broker-a-1"] == Progress(True, 1000, 3, frozenset({first}), 1)
    assert found["broker-a-2"] == Progress(False, 900, 3, id=2, follows=True)
    assert found["gone"] == Progress()


async def test_slaves_that_their_master_knows_by_id_are_found_by_it(world: World) -> None:
    await world.leads("broker-a-1", 3)
    world.status["broker-a-1"] = leading(addresses={}, in_sync=frozenset({1, 7}))
    master = world.places["broker-a-1"]
    slave = Place(kind=Kind.BROKER, name="slave", port=1, group=master.group, broker_id=7)
    found = (await world.roles.progress([master, slave]))["broker-a-1"]
    assert found.in_sync == {master.address, slave.address}
