"""Our client with our servers, while things break: histories that go through the checker.

The same plays are given with Apache's servers in ``tests/compat``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.scenarios.support import shared_scenarios as plays
from tests.scenarios.support.consuming import quick_servers
from tests.scenarios.support.hurried_clock import HurriedClock
from tests.scenarios.support.scenario_clients import Cast
from tests.scenarios.test_two_brokers import BROKERS, Servers

from rocketpipe import MessageQueue
from rocketpipe.client.consumer.group.offsets import BrokerOffsets
from rocketpipe.client.consumer.pushing.held_queue import Lease
from rocketpipe.client.consumer.pushing.locks import QueueLocks
from rocketpipe.testing.histories.checker import HistoryBroken, assert_clean
from rocketpipe.testing.histories.history import Phase

pytestmark = pytest.mark.scenario

#: The first retry is at the third level; on the broker's hurried clock it comes at once.
DELAYS = "1s 1s 1s 1s 1s 1s"


class QuickServers(Servers):
    """Brokers that tell new NameServers of themselves every second."""

    def _arguments(self, name: str) -> list[str]:
        arguments = super()._arguments(name)
        if name in self.brokers:
            with (self._scratch / f"{name}.conf").open("a") as conf:
                conf.write("registerNameServerPeriod=1000\n")
        return arguments


class Processes:
    """Servers that are processes of their own, as a stage."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    @classmethod
    @asynccontextmanager
    async def running(cls, scratch: Path) -> AsyncIterator[Processes]:
        servers = QuickServers(scratch)
        try:
            await asyncio.to_thread(servers.start, *servers.name_servers)
            await asyncio.to_thread(servers.start, *BROKERS)
            yield cls(servers)
        finally:
            servers.stop()

    @property
    def name_servers(self) -> str:
        return self._servers.all_name_servers

    async def kill_broker(self) -> None:
        await asyncio.to_thread(self._servers.kill, plays.LOST_BROKER)

    async def start_broker(self) -> None:
        await asyncio.to_thread(self._servers.start, plays.LOST_BROKER)

    async def kill_name_servers(self) -> None:
        for name in self._servers.name_servers:
            await asyncio.to_thread(self._servers.kill, name)

    async def start_name_servers(self) -> None:
        await asyncio.to_thread(self._servers.start, *self._servers.name_servers)


async def test_neither_a_killed_broker_nor_lost_name_servers_lose_a_message(
    tmp_path: Path,
) -> None:
    async with Processes.running(tmp_path) as stage:
        async with Cast(tmp_path / "history", stage.name_servers) as cast:
            await plays.outages(cast, stage)
            history = cast.history()
            assert_clean(history)
            # Another broker was there all the time, and old routes serve while nobody gives new.
            assert [event.id for event in history if event.phase is Phase.INFO] == []


async def test_in_a_storm_of_members_everything_is_consumed_and_repeats_have_a_cause(
    tmp_path: Path,
) -> None:
    async with quick_servers(tmp_path, clock=HurriedClock()) as servers:
        async with Cast(tmp_path / "history", servers.name_server) as cast:
            await plays.storm(cast)
            assert_clean(cast.history())


async def test_order_is_kept_and_handlers_never_overlap_whoever_is_killed(tmp_path: Path) -> None:
    async with quick_servers(tmp_path, clock=HurriedClock()) as servers:
        async with Cast(tmp_path / "history", servers.name_server) as cast:
            await plays.ordered_with_kills(cast)
            assert_clean(cast.history())


async def test_broadcasts_reach_everybody_and_what_always_fails_ends_with_the_dead(
    tmp_path: Path,
) -> None:
    async with quick_servers(tmp_path, clock=HurriedClock(), delay_levels=DELAYS) as servers:
        async with Cast(tmp_path / "history", servers.name_server) as cast:
            await plays.broadcast_and_dead_letters(cast)
            assert_clean(cast.history())


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
async def test_storms_of_all_kinds(tmp_path: Path, seed: int) -> None:
    async with quick_servers(tmp_path, clock=HurriedClock()) as servers:
        async with Cast(tmp_path / "storm", servers.name_server) as cast:
            await plays.storm(cast, members=40, messages=8000, seed=seed)
            assert_clean(cast.history())
        async with Cast(tmp_path / "ordered", servers.name_server) as cast:
            await plays.ordered_with_kills(cast, kills=6, pace=1000)
            assert_clean(cast.history())


@pytest.mark.soak
async def test_long_outages(tmp_path: Path) -> None:
    async with Processes.running(tmp_path) as stage:
        async with Cast(tmp_path / "history", stage.name_servers) as cast:
            await plays.outages(cast, stage, pace=5000)
            assert_clean(cast.history())


# A client that breaks its promises must be found out: otherwise the plays above show nothing.


async def test_members_that_do_not_save_their_offsets_are_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forgets(self: BrokerOffsets, queues: object) -> None:
        """Nothing is saved but what pulls carry."""

    monkeypatch.setattr(BrokerOffsets, "persist", forgets)
    async with quick_servers(tmp_path, clock=HurriedClock()) as servers:
        async with Cast(tmp_path / "history", servers.name_server) as cast:
            await plays.storm(cast)
            with pytest.raises(HistoryBroken, match="repeated: "):
                assert_clean(cast.history())


@pytest.mark.soak
async def test_a_member_that_does_not_care_for_locks_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def takes(self: QueueLocks, queue: MessageQueue) -> Lease:
        """It asks nobody."""
        return Lease(HurriedClock().monotonic_ms())

    monkeypatch.setattr(QueueLocks, "lock", takes)
    async with quick_servers(tmp_path, clock=HurriedClock()) as servers:
        async with Cast(tmp_path / "history", servers.name_server) as cast:
            await plays.ordered_with_kills(cast)
            with pytest.raises(HistoryBroken, match=r"(overlap|out of order|repeated): "):
                assert_clean(cast.history())
