"""A leader whose disk is full has one lead that has room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.broker.support.elected_group import ElectedGroup, elected_group
from tests.waiting import until

from rocketpipe import Message, Producer
from rocketpipe.broker.replication.status import FollowerStatus
from rocketpipe.broker.roles import store_watch
from rocketpipe.broker.roles.store_watch import StoreWatch
from rocketpipe.errors import RocketPipeError
from rocketpipe.store.errors import StoreFull
from rocketpipe.store.state.health import Health
from rocketpipe.testing import ManualClock
from rocketpipe.testing.kit_faults import KitDisk


class Fullness:
    """What a disk is told."""

    is_disk_full = False


@pytest.fixture
async def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ElectedGroup]:
    monkeypatch.setattr(store_watch, "FULL_MS", 300)
    async with elected_group(tmp_path) as made:
        yield made


async def started(group: ElectedGroup, *numbers: int) -> dict[int, Fullness]:
    disks = {}
    for number in numbers:
        disks[number] = told = Fullness()
        disk = KitDisk(told, group.root / f"replica-{number}")  # type: ignore[arg-type]
        await group.replica(number, disk=disk)
    await group.in_sync(*numbers)
    return disks


async def test_it_hands_over_to_one_that_has_room_and_follows_when_it_has_some(
    group: ElectedGroup,
) -> None:
    disks = await started(group, 1, 2, 3)
    leader = await group.leader()
    disks[leader].is_disk_full = True
    async with Producer(group.name_server, timeout_ms=20_000) as producer:

        async def sent() -> None:
            while True:
                try:
                    await producer.send(Message(topic="orders", body=b"x"))
                    return
                except RocketPipeError:  # refused in so many words until another leads
                    pass

        await sent()
        await until(lambda: group.leading() not in (None, leader))
        disks[leader].is_disk_full = False
        await group.in_sync(1, 2, 3)
        await sent()


class Watched:
    """A watch over a store that is full, with two followers in sync."""

    def __init__(self, *full: int) -> None:
        self.health = Health()
        self.clock = ManualClock()
        self.asked: list[int | None] = []
        status = [
            FollowerStatus(
                id=each,
                address=f"h:{each}",
                dialect="epochs",
                end=0,
                lag=0,
                in_sync=True,
                bytes_per_second=0,
                transfer_from=0,
            )
            for each in (2, 3)
        ]
        followers = SimpleNamespace(status=lambda: status, has_in_sync=True)
        self.watch = StoreWatch(
            self.health,
            self.clock,
            followers,  # type: ignore[arg-type]
            with_room=lambda: {2, 3} - set(full),
            resign=self.resign,
            stand_aside=partial(self.resign, None),
        )

    async def resign(self, to: int | None) -> None:
        self.asked.append(to)

    async def __aenter__(self) -> Watched:
        self._keeping = asyncio.ensure_future(self.watch.keep())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._keeping.cancel()


FULL = StoreFull(Path("/"), 1, "no space")


@pytest.mark.parametrize(("full", "to"), [((), [2]), ((2,), [3]), ((2, 3), [])])
async def test_only_who_has_room_is_asked(full: tuple[int, ...], to: list[int]) -> None:
    async with Watched(*full) as watched:
        watched.health.watermark(FULL)
        await watched.clock.advance(2 * store_watch.FULL_MS - store_watch.EVERY_MS)
        assert watched.asked == to


async def test_a_moment_without_room_is_none() -> None:
    async with Watched() as watched:
        for full in (FULL, None, FULL):
            watched.health.watermark(full)
            await watched.clock.advance(store_watch.FULL_MS - store_watch.EVERY_MS)
        assert watched.asked == []


async def test_a_store_that_failed_is_not_waited_for() -> None:
    async with Watched(2, 3) as watched:
        watched.health.fail("a sync")
        await watched.clock.advance(store_watch.EVERY_MS)
        assert watched.asked == [None]
