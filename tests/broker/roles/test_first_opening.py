"""A store that is damaged when it is opened: who is asked to mend it, and what is said."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest
from tests.broker.support.elected_group import elected_group
from tests.broker.support.replica_group import ReplicaGroup, replica_group
from tests.waiting import until

from rocketpipe import Message, Producer
from rocketpipe.broker.config.replication import BrokerRole
from rocketpipe.broker.roles.first_opening import SAY_AGAIN_MS, of_group, open_mended
from rocketpipe.broker.roles.replica import Replica
from rocketpipe.store.errors import OddSegment, StoreDamaged
from rocketpipe.testing.clock import ManualClock

DAMAGE = StoreDamaged(Path("commitlog/0"), 40, "no magic", 90)


class Stand:
    """A replica that opens once it was mended from the right place."""

    me = 2
    address = "127.0.0.1:1"
    ha_address = "127.0.0.1:2"

    def __init__(self, *damages: StoreDamaged | OddSegment) -> None:
        self.damages = list(damages)
        self.asked: list[str] = []

    async def open(self) -> None:
        if self.damages:
            raise self.damages[0]

    async def mend(self, ha_address: str, damage: StoreDamaged | OddSegment) -> None:
        assert damage is self.damages[0]
        self.asked.append(ha_address)
        if ha_address == "away":
            raise OSError("it does not answer")
        self.damages.pop(0)


def opening(stand: Stand, clock: ManualClock, leaders: list[str | None]) -> asyncio.Task[list[str]]:
    async def find() -> str | None:
        return leaders.pop(0) if len(leaders) > 1 else leaders[0]

    async def run() -> list[str]:
        lost: list[str] = []
        replica = cast("Replica", stand)
        await open_mended(replica, find, lambda: lost.append("lost"), clock)
        return lost

    return asyncio.create_task(run())


async def test_it_is_mended_as_often_as_damage_is_found(caplog: pytest.LogCaptureFixture) -> None:
    stand = Stand(DAMAGE, OddSegment(Path("commitlog/1"), "does not follow 0"))
    assert await opening(stand, ManualClock(), ["leader"]) == ["lost", "lost"]
    assert stand.asked == ["leader", "leader"]
    assert caplog.text.count("takes no part until") == 2


async def test_it_waits_for_a_leader_that_can_mend_it_and_says_why_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, leaders = ManualClock(), [None]
    stand = Stand(DAMAGE)
    task = opening(stand, clock, leaders)
    for _ in range(30):
        await clock.advance(SAY_AGAIN_MS // 10)
    assert not task.done()
    assert 2 <= caplog.text.count("reason=nobody leads") <= 4
    leaders[0] = "away"
    await clock.advance(SAY_AGAIN_MS)
    assert "reason=it does not answer" in caplog.text
    leaders[0] = "leader"
    await clock.advance(SAY_AGAIN_MS)
    assert await task == ["lost"]


async def test_one_that_leads_by_its_settings_has_nobody_to_ask() -> None:
    with pytest.raises(StoreDamaged):
        await open_mended(cast("Replica", Stand(DAMAGE)), None, lambda: None, ManualClock())


@pytest.mark.scenario
async def test_the_group_sees_it_as_one_that_cannot_lead(tmp_path: Path) -> None:
    async with elected_group(tmp_path) as group:
        coordinator = group.ensemble.coordinator()
        find = of_group(coordinator, cast("Replica", Stand()))
        assert await find() is None
        assert not group.ensemble.state().members[2].clean
        await group.replica(1)
        await group.leader()
        assert await find() == group.replicas[1].core.group.status().ha_address
        await coordinator.close()


@pytest.mark.scenario
@pytest.mark.parametrize("told", [False, True])
async def test_a_slave_by_its_settings_is_mended_from_its_master(
    tmp_path: Path, told: bool
) -> None:
    async with replica_group(tmp_path) as group:
        await mended_slave(group, told=told)


async def mended_slave(group: ReplicaGroup, *, told: bool) -> None:
    master = await group.master(segment_bytes=64 << 10)
    slave = await group.slave(segment_bytes=64 << 10)
    async with Producer(group.name_server) as producer:
        for _ in range(40):
            await producer.send(Message(topic="orders", body=bytes(4000)))
    await until(lambda: slave.log_end == master.log_end)
    await slave.stop()
    files = sorted((group.root / "slave" / "commitlog").iterdir())
    files[1].unlink()
    settings = {"master": master.core.group.status().ha_address} if told else {}
    slave = await group.start(
        group.config("slave", BrokerRole.SLAVE, broker_id=1, segment_bytes=64 << 10, **settings)
    )
    assert files[1].exists()
    await until(lambda: slave.log_end == master.log_end)
