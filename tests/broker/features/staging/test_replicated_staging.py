"""Stages of a leader: nobody goes on before its replicas have what was staged."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.broker.support.leader_parts import Told, elected
from tests.broker.support.scripted_follower import following
from tests.broker.support.staging_parts import StagingParts
from tests.waiting import until

from rocketpipe.broker.replication.epochs import EpochTable
from rocketpipe.broker.replication.leading.followers import Followers
from rocketpipe.broker.replication.leading.ha_port import ha_port
from rocketpipe.errors import RequestRejected
from rocketpipe.store.files.disk import Disk
from rocketpipe.testing.clock import ManualClock


async def test_with_replicas_a_part_is_answered_when_they_have_it(tmp_path: Path) -> None:
    clock = ManualClock()
    async with ha_port("127.0.0.1", 0) as port:
        parts = StagingParts(tmp_path, clock)
        config = elected(slave_timeout_ms=1000, max_lag_ms=10**6, silence_ms=10**6)
        followers = Followers(
            parts.store,
            EpochTable(Disk(), tmp_path / "epochFileCheckpoint"),
            clock,
            config,
            me=1,
            epoch=1,
            in_sync=frozenset({1, 2}),
            change_in_sync=Told(),
            moved=parts.visibility.dispatch,
            hold=parts.pins.hold,
        )
        port.serve(lambda: followers)
        parts.visibility.standing.followers = followers
        staging = asyncio.create_task(parts.stage("one", b"a"))
        while not staging.done():
            await clock.advance(100)
        with pytest.raises(RequestRejected, match="not acknowledged in time"):
            await staging
        async with following(port.address, 2) as replica:
            replica.reports = True
            await until(lambda: parts.store.positions.confirmed == parts.store.positions.written)
            assert not await parts.stage("one", b"a")
            await parts.commit({"one": 1})
            assert parts.bodies() == [b"a"]
        parts.visibility.standing.refusal = (14, "leads no longer")
        end = parts.store.positions.written
        with pytest.raises(RequestRejected, match="leads no longer"):
            await parts.stage("two", b"b", batch=1)
        assert parts.store.positions.written == end
        followers.fail(14, "over")
