"""A broker of ours behind Apache's masters that a controller elects: it follows over epochs.

Apache's controller takes nobody into a group who does not ask it, so ours is no member there: its
master never waits for it. It follows whoever is elected, and cuts what that one does not have.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.broker.support.replica_group import ReplicaGroup, Running, replica_group
from tests.compat.support.apache import (
    BROKER,
    CLUSTER,
    NEWEST,
    Apache,
    ApacheBroker,
    find_apache,
)
from tests.compat.support.copies import (
    ORDERS,
    PATIENCE_S,
    QUEUE_FILE_BYTES,
    SEGMENT_BYTES,
    check_pulls,
    consume_some,
    send_everything,
    until_copied,
)
from tests.waiting import until

from rocketpipe.cli.main import main
from rocketpipe.client.consumer.pull import PullConsumer
from rocketpipe.client.producer.producer import Producer
from rocketpipe.protocol.requests.replication import (
    ElectMaster,
    GetEpochCache,
    GetSyncState,
    Replicas,
)
from rocketpipe.remoting.caller import Caller

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

QUEUES = 4
LEARNER = 9
ELECTED = {
    "enableControllerMode": "true",
    "brokerId": -1,
    "brokerRole": "SLAVE",
    "allAckInSyncStateSet": "true",
    "syncBrokerMetadataPeriod": 1000,
    "checkSyncStateSetPeriod": 1000,
    "mappedFileSizeCommitLog": SEGMENT_BYTES,
    "mappedFileSizeConsumeQueue": QUEUE_FILE_BYTES,
}


class ApacheGroup:
    """Two brokers of Apache's, by their ids, and the controller that elects one of them."""

    def __init__(
        self, controller: str, brokers: dict[int, ApacheBroker], name_server: str, caller: Caller
    ) -> None:
        self.controller = controller
        self.brokers = brokers
        self.name_server = name_server
        self.caller = caller

    async def state(self) -> Replicas:
        asked = GetSyncState(names=b'["%s"]' % BROKER.encode())
        return (await self.caller.call(self.controller, asked)).replicas.groups[BROKER]

    async def led_by(self, number: int, *, in_sync: int) -> ApacheBroker:
        """Wait until one of them leads, with so many in its set."""
        async with asyncio.timeout(PATIENCE_S):
            state = await self.state()
            while (state.leader_id, len(state.in_sync)) != (number, in_sync):
                await asyncio.sleep(0.2)
                state = await self.state()
        return self.brokers[number]


@asynccontextmanager
async def apache_group(apache: Apache, root: Path, name_server: str) -> AsyncIterator[ApacheGroup]:
    places = [root / name for name in ("controller", "one", "two")]
    for place in places:
        place.mkdir()
    async with (
        apache.controller(places[0]) as controller,
        apache.replica(places[1], name_server, controllerAddr=controller, **ELECTED) as one,
        apache.replica(places[2], name_server, controllerAddr=controller, **ELECTED) as two,
        Caller() as caller,
    ):
        yield ApacheGroup(controller, {1: one, 2: two}, name_server, caller)


async def check_follows(apaches: ApacheGroup, leader: ApacheBroker, ours: Running) -> None:
    """What is sent now reaches ours, with the epochs of the leader."""
    word = f"of-{leader.address.rpartition(':')[2]}"
    await send_everything(apaches.name_server, word, singles=100)
    await until_copied(leader.address, leader.store, ours)
    theirs = (await apaches.caller.call(leader.address, GetEpochCache())).cache.epochs
    assert [(each.epoch, each.start) for each in theirs] == list(
        ours.core.group.status().epochs or ()
    )
    assert LEARNER not in {each.id for each in (await apaches.state()).in_sync}


async def test_a_learner_of_ours_follows_whom_apaches_controller_elects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    apache = find_apache(NEWEST)
    async with replica_group(tmp_path) as group:
        async with apache_group(apache, tmp_path, group.name_server) as apaches:
            first = await apaches.led_by(1, in_sync=2)
            ours = await group.slave("ours", broker_id=LEARNER)
            await check_follows(apaches, first, ours)
            await consume_some(group.name_server)
            await until_copied(first.address, first.store, ours)
            await check_operators(apaches, capsys)
            wanted = ElectMaster(
                cluster_name=CLUSTER, broker_name=BROKER, broker_id=2, designate_elect=True
            )
            assert (await apaches.caller.call(apaches.controller, wanted)).master_epoch == 2
            second = await apaches.led_by(2, in_sync=2)
            await until(lambda: follows(ours, second))
            await check_follows(apaches, second, ours)
            await check_pulls(second.address, ours.address, ORDERS, QUEUES)
            os.kill(second.pid, signal.SIGKILL)
            again = await apaches.led_by(1, in_sync=1)
            await until(lambda: follows(ours, again))
            await check_follows(apaches, again, ours)
        await ours.stop()
        await check_promoted(group)


def follows(ours: Running, leader: ApacheBroker) -> bool:
    following = ours.core.group.status().following
    return (
        following is not None and following.connected and following.master_ha == leader.ha_address
    )


async def check_operators(apaches: ApacheGroup, capsys: pytest.CaptureFixture[str]) -> None:
    """Our ``mqadmin`` shows Apache's group, and ours in it."""

    async def run(verb: str) -> list[list[str]]:
        words = ["mqadmin", verb, "-c", CLUSTER, "-n", apaches.name_server]
        assert await asyncio.to_thread(main, words) == 0, capsys.readouterr()
        return [line.split() for line in capsys.readouterr().out.splitlines()[1:]]

    roles = [(line[0], line[1]) for line in await run("haStatus")]
    first, second = apaches.brokers[1], apaches.brokers[2]
    assert {(first.address, "MASTER"), (second.address, "SLAVE")} <= set(roles)
    assert roles.count((first.address, "its")) == 2, "its slave, and ours"
    epochs = {(line[1], line[2]): line[3:5] for line in await run("getBrokerEpoch")}
    assert epochs["0", first.address] == epochs["2", second.address] == ["1", "0"]
    assert [each[1] for each in epochs.items() if each[0][0] == str(LEARNER)] == [["1", "0"]]


async def check_promoted(group: ReplicaGroup) -> None:
    """Made the master by hand, ours goes on in an epoch of its own."""
    master = await group.master("ours")
    assert [epoch for epoch, _ in master.core.group.status().epochs or ()] == [1, 2, 3, 4]
    slave = await group.slave("behind it")
    async with Producer(group.name_server) as producer:
        await producer.send(ORDERS, b"promoted")
    got: set[bytes] = set()
    async with PullConsumer(group.name_server, group="late") as consumer:
        await consumer.subscribe(ORDERS)
        async with asyncio.timeout(PATIENCE_S):
            while not {b"promoted", b"2 of a batch"} <= got:
                got.update(each.body for each in await consumer.poll(1000))
    await until(lambda: slave.log_end == master.log_end)
