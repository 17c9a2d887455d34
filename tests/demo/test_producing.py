"""Sending in order and once, also where a sender cannot know whether it did."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from demo.data import Flight
from demo.producing import Replay, plans, queue_of

from rocketpipe import Admin, Producer, PullConsumer
from rocketpipe.errors import ConnectionLost
from rocketpipe.testing import cluster


def flights(count: int) -> list[Flight]:
    return [
        Flight(n, f"N{n % 7}", "UA", departed=True, body=json.dumps({"id": n}).encode())
        for n in range(count)
    ]


def test_an_aircraft_has_one_queue_and_keeps_its_order() -> None:
    planned = plans(flights(100), 4)
    assert sum(map(len, planned)) == 100
    for number, plan in enumerate(planned):
        assert [flight.id for flight in plan] == sorted(flight.id for flight in plan)
        assert {queue_of(flight.aircraft, 4) for flight in plan} <= {number}


@pytest.mark.scenario
async def test_what_was_stored_unanswered_is_not_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = plans(flights(500), 4)
    replay = Replay("flights", planned, per_second=1e6)
    replay.open_to(1.0)
    send = Producer.send_batch
    calls = 0

    async def lose_some(self: Producer, *given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls % 5 == 1:
            raise ConnectionLost("the broker", "before it was sent")
        answer = await send(self, *given, **named)
        if calls % 5 == 3:
            raise ConnectionLost("the broker", "after it was stored")
        return answer

    monkeypatch.setattr(Producer, "send_batch", lose_some)
    async with cluster(tmp_path) as servers, Admin(servers.name_server) as admin:
        await admin.topics.create("flights", queues=4)
        await replay.run(servers.name_server)
        async with PullConsumer(servers.name_server, group="all") as consumer:
            await consumer.subscribe("flights")
            got = []
            while len(got) < 500 and (more := await consumer.poll(timeout_ms=5000)):
                got += [(message.queue_id, json.loads(message.body)["id"]) for message in more]
        ends = await admin.offsets.ends("flights")
    assert replay.stored == 500
    assert replay.interruptions > 10
    assert replay.found_stored > 0
    assert sum(each.end for each in ends.values()) == 500
    for number, plan in enumerate(planned):
        assert [n for queue, n in got if queue == number] == [flight.id for flight in plan]


@pytest.mark.scenario
async def test_it_goes_no_further_than_the_gate(tmp_path: Path) -> None:
    replay = Replay("flights", plans(flights(800), 4), per_second=1e6)
    async with cluster(tmp_path) as servers, Admin(servers.name_server) as admin:
        await admin.topics.create("flights", queues=4)
        sending = asyncio.create_task(replay.run(servers.name_server))
        replay.open_to(0.25)
        await replay.reached(0.25)
        assert not sending.done()
        assert replay.stored < 800
        replay.open_to(1.0)
        await sending
    assert replay.stored == 800
