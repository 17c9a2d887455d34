"""Leaders of real processes killed, restarted, cut off and stopped, with clients that go on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults.support.elected_processes import (
    Load,
    Reader,
    Stubborn,
    check,
    elected_processes,
    everything,
)

from rocketpipe import Producer

pytestmark = pytest.mark.scenario

KILLS = 3


async def test_leaders_are_killed_and_restarted_under_load(tmp_path: Path) -> None:
    async with (
        elected_processes(tmp_path) as group,
        Producer(group.name_server) as producer,
    ):
        load, reader = Load(producer), Reader()
        async with load.under_way(), reader.at_followers(group):
            for _ in range(KILLS):
                await load.goes_on()
                leader = await group.leader()
                await group.say("kill", leader)
                await load.goes_on()
                await group.say("start", leader)
                await group.all_in_sync()
        await check(group, load.acked, reader.seen)

        rolling = Load(producer)
        async with rolling.under_way(), reader.at_followers(group):
            await group.restart_all(rolling)
        assert rolling.errors == []
        await check(group, load.acked, rolling.acked, reader.seen)


async def test_a_leader_that_is_cut_off_or_stopped_acknowledges_nothing(tmp_path: Path) -> None:
    async with (
        elected_processes(tmp_path) as group,
        Producer(group.name_server) as producer,
        Stubborn() as stubborn,
    ):
        load = Load(producer)
        async with load.under_way():
            await load.goes_on()
            leader = await group.leader()
            await group.say("cut", leader)
            sends = stubborn.send((await group.brokers())[leader]["address"], b"to who is cut off")
            await group.leader(other_than=leader)
            await load.goes_on()
            assert await sends == []
            await group.say("heal", leader)

            leader = await group.all_in_sync()
            before = group.quarantine(leader)
            row = (await group.brokers())[leader]
            await group.say("cut", leader)
            stored = stubborn.send(row["address"], b"before it is stopped")
            await group.log_grows(leader, row["log_end"])
            await group.say("pause", leader)
            await group.leader(other_than=leader)
            await load.goes_on()
            await group.say("heal", leader)
            sends = stubborn.send(row["address"], b"while it is stopped")
            await group.say("resume", leader)
            assert await stored == await sends == []
            await group.all_in_sync()
        cut_off = b"".join(
            path.read_bytes() for path in group.quarantine(leader) if path not in before
        )
        assert b"before it is stopped" in cut_off
        await check(group, load.acked)
        found = await everything((await group.brokers())[await group.leader()]["address"])
        assert set(stubborn.sent).isdisjoint(found.values())
