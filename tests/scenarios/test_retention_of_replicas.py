"""Old files of the log at replicas: a follower removes what its leader removed, and no more."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.broker.support.elected_group import ElectedGroup, elected_group
from tests.scenarios.support.sending_wire import all_messages
from tests.waiting import PATIENCE_S

from rocketpipe import Producer
from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.requests.brokers import DeleteExpiredLog
from rocketpipe.remoting.caller import Caller

pytestmark = pytest.mark.scenario

SEGMENT = 128 << 10


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[ElectedGroup]:
    async with elected_group(tmp_path) as made:
        made.store_settings = {"segment_bytes": SEGMENT, "reserved_hours": 0}
        yield made


async def fill(producer: Producer, files: int = 4) -> None:
    """Have new files of the log begin."""
    for _ in range(files * 4):
        await producer.send("others", os.urandom(SEGMENT // 4))


def begins(group: ElectedGroup) -> dict[int, int]:
    """Where the log of each replica begins."""
    return {number: each.core.store.first_offset for number, each in group.replicas.items()}


async def remove(group: ElectedGroup) -> dict[int, int]:
    """Have every replica remove what may go, followers first, and these no more than is gone."""
    leader, before = await group.leader(), begins(group)
    async with Caller() as caller:
        for number in sorted(group.replicas, key=leader.__eq__):
            with suppress(RequestRejected):  # one whose log is being cut removes nothing now
                await caller.call(group.replicas[number].address, DeleteExpiredLog())
            now = begins(group)
            assert now[number] <= max(now[leader], before[number]), (number, leader, now)
    return begins(group)


async def removed(group: ElectedGroup, before: int) -> int:
    """Where the log of all begins, once that is behind an offset."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            first = set((await remove(group)).values())
            if len(first) == 1 and max(first) > before:
                return max(first)
            await asyncio.sleep(0.05)


async def late_messages(group: ElectedGroup) -> Counter[bytes]:
    """What has been delivered, once that is both that waited."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            address = group.replicas[await group.leader()].address
            found = Counter(each.body for each in await all_messages(address, "late"))
            if found.total() >= 2:
                return found
            await asyncio.sleep(0.05)


async def test_followers_remove_what_the_leader_removed_and_keep_what_it_keeps(
    group: ElectedGroup,
) -> None:
    leader = await group.three(delay_levels="5s")
    async with Producer(group.name_server, timeout_ms=10_000) as producer:
        await fill(producer)
        first = await removed(group, 0)
        await producer.send("late", b"level", delay_level=1)
        await producer.send("late", b"timer", delay=5)
        await fill(producer)
        await remove(group)
        await remove(group)
        leader = await group.lose(leader)
        await fill(producer)
        await remove(group)
        assert await late_messages(group) == Counter([b"level", b"timer"])
        # Nothing waits for the next leader, and all go by that one.
        await group.in_sync(1, 2, 3)
        await group.lose(leader)
        await fill(producer)
        await removed(group, first)
