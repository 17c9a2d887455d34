"""Which flights are taken, and what becomes of the others."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from demo.rejecting import DEAD_LETTERS, Departures
from demo.watching import dead_letters
from tests.scenarios.support.hurried_clock import HurriedClock

from rocketpipe import Admin, Producer
from rocketpipe.testing import cluster


@pytest.mark.scenario
async def test_what_never_departed_is_a_dead_letter_after_three_attempts(tmp_path: Path) -> None:
    departures = Departures(10)
    clock = HurriedClock()  # the six seconds of two retries
    async with cluster(tmp_path, clock=clock) as servers, Admin(servers.name_server) as admin:
        await admin.topics.create("flights", queues=2)
        assert await dead_letters(admin, DEAD_LETTERS) == 0
        async with Producer(servers.name_server) as producer:
            for number in range(10):
                flight = {"id": number, "dep_time": None if number == 4 else 517}
                await producer.send("flights", json.dumps(flight).encode())
        async with departures.consumer(servers.name_server, "flights"):
            async with asyncio.timeout(60):
                while await dead_letters(admin, DEAD_LETTERS) < 1:  # noqa: ASYNC110 - it is asked
                    await asyncio.sleep(0.05)
    assert departures.accepted.found == 9
    assert 4 not in departures.accepted
    assert [4 in tally for tally in departures.rejected] == [True, True, True]
    assert [attempt for _, attempt in departures.moments] == [0, 1, 2]
