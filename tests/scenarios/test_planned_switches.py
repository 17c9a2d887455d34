"""An operator has leaders hand over, restarts all replicas in turn, and has a crashed one lead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.broker.support.elected_group import ElectedGroup, elected_group
from tests.waiting import PATIENCE_S, until

from rocketpipe import Admin, Message, Producer, PullConsumer
from rocketpipe.errors import RequestRejected, RocketPipeError

pytestmark = pytest.mark.scenario

SENDERS = 4


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[ElectedGroup]:
    async with elected_group(tmp_path) as made:
        yield made


class Load:
    """Senders with the client's own settings; whatever they are told but success is an error."""

    def __init__(self, name_server: str) -> None:
        self._name_server = name_server
        self._sent = 0
        self.acknowledged: list[bytes] = []
        self.errors: list[RocketPipeError] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        stop = asyncio.Event()
        async with Producer(self._name_server) as producer:
            await producer.send(Message(topic="orders", body=b"first"))
            tasks = [asyncio.create_task(self._send(producer, stop)) for _ in range(SENDERS)]
            try:
                yield
            finally:
                stop.set()
                await asyncio.gather(*tasks)

    async def _send(self, producer: Producer, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self._sent += 1
            body = b"%d" % self._sent
            try:
                await producer.send(Message(topic="orders", body=body))
                self.acknowledged.append(body)
            except RocketPipeError as error:
                self.errors.append(error)
            await asyncio.sleep(0)

    async def goes_on(self) -> None:
        """Wait until more was acknowledged."""
        have = len(self.acknowledged)
        await until(lambda: len(self.acknowledged) > have + 20 or self.errors)


async def three(group: ElectedGroup) -> int:
    for number in (1, 2, 3):
        await group.replica(number)
    await group.in_sync(1, 2, 3)
    return await group.leader()


async def read_all(group: ElectedGroup, wanted: set[bytes]) -> None:
    async with PullConsumer(group.name_server, group="all") as consumer:
        await consumer.subscribe("orders")
        while wanted:
            wanted -= {message.body for message in await consumer.poll()}


async def registered(admin: Admin, *numbers: int) -> None:
    """Wait until NameServers know just these replicas, none of which leads."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            (broker,) = await admin.brokers.all()
            if broker.addresses.keys() == {*numbers}:
                return
            await asyncio.sleep(0.05)


async def test_all_replicas_are_restarted_in_turn_and_nobody_sees_an_error(
    group: ElectedGroup,
) -> None:
    leader = await three(group)
    load = Load(group.name_server)
    async with load.running():
        # The leader each time: a follower that goes is not missed.
        for _ in range(3):
            await load.goes_on()
            await group.stop(leader)
            await load.goes_on()
            await group.replica(leader)
            await group.in_sync(1, 2, 3)
            leader = await group.leader()
        await load.goes_on()
    assert load.errors == []
    assert len(group.ensemble.elected) == 4
    await read_all(group, set(load.acknowledged))


async def test_a_leader_resigns_under_load_and_nobody_sees_an_error(group: ElectedGroup) -> None:
    leader = await three(group)
    load = Load(group.name_server)
    async with load.running(), Admin(group.name_server) as admin:
        for _ in range(2):
            to = leader % 3 + 1
            await group.in_sync(1, 2, 3)
            await load.goes_on()
            done = await admin.replicas.elect("broker-a", to)
            assert done.id == to
            assert await group.leader() == to
            leader = to
            await load.goes_on()
    assert load.errors == []
    await read_all(group, set(load.acknowledged))


async def test_a_replica_whose_machine_crashed_leads_again_by_word_only(
    group: ElectedGroup,
) -> None:
    last = await three(group)
    async with Producer(group.name_server) as producer:
        await producer.send(Message(topic="orders", body=b"kept"))
    for number in {1, 2, 3} - {last}:
        await group.stop(number)
    await group.in_sync(last)
    await group.crash(last)
    await group.replica(last)
    async with Admin(group.name_server) as admin:
        other = last % 3 + 1
        await group.replica(other)
        await registered(admin, last, other)
        assert not group.ensemble.state().members[last].clean
        with pytest.raises(RequestRejected, match="have that one lead"):
            await admin.replicas.lead_anyway("broker-a", other, do_it=True)
        lacking = await admin.replicas.lead_anyway("broker-a", last, do_it=False)
        assert (lacking.in_sync, lacking.unclean, lacking.epoch) == ((last,), (last,), None)
        assert group.leading() is None
        led = await admin.replicas.lead_anyway("broker-a", last, do_it=True)
        assert led.epoch == len(group.ensemble.elected)
        assert await group.leader() == last
        await group.in_sync(last, other)
        with pytest.raises(RequestRejected, match=f"replica {last} leads"):
            await admin.replicas.lead_anyway("broker-a", other, do_it=False)
    async with Producer(group.name_server) as producer:
        await producer.send(Message(topic="orders", body=b"and on"))
    await read_all(group, {b"kept", b"and on"})


async def test_a_replica_whose_machine_crashed_is_not_elected_before_it_caught_up(
    group: ElectedGroup,
) -> None:
    leader = await three(group)
    crashed = leader % 3 + 1
    async with Producer(group.name_server) as producer:
        await producer.send(Message(topic="orders", body=b"early"))
        keeps = group.replicas[crashed].core.store.positions.written
        await producer.send(Message(topic="orders", body=b"late"))
    for each in group.coordinators.values():
        each.die()  # all at once: nobody leaves the set
    for number in {1, 2, 3} - {crashed}:
        await group.stop(number)
    await group.crash(crashed, keeps)
    await until(lambda: not group.ensemble.state().members)
    await group.replica(crashed)
    await until(lambda: crashed in group.ensemble.state().members)
    assert group.ensemble.state().in_sync == {1, 2, 3}
    assert not group.ensemble.state().members[crashed].clean
    for number in {1, 2, 3} - {crashed}:
        await group.replica(number)
    assert await group.leader() != crashed
    assert group.ensemble.elected[-1].epoch == 2
    await group.in_sync(1, 2, 3)
    await until(lambda: group.ensemble.state().members[crashed].clean)
    async with Admin(group.name_server) as admin:
        assert (await admin.replicas.elect("broker-a", crashed)).id == crashed
    await read_all(group, {b"early", b"late"})
