"""What a look at the cluster finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from demo.watching import Watch

from rocketpipe import Admin, Producer, PullConsumer
from rocketpipe.testing import cluster


@pytest.mark.scenario
async def test_a_look_finds_what_is_stored_and_how_far_groups_are(tmp_path: Path) -> None:
    watch = Watch("flights", ["quick", "idle"], "%DLQ%quick")
    async with cluster(tmp_path) as servers, Admin(servers.name_server) as admin:
        await admin.topics.create("flights", queues=2)
        async with Producer(servers.name_server) as producer:
            for _ in range(6):
                await producer.send("flights", b"one")
        async with PullConsumer(servers.name_server, group="quick") as consumer:
            await consumer.subscribe("flights")
            got = 0
            while got < 6:
                got += len(await consumer.poll(timeout_ms=5000))
            await consumer.commit()
            sample = await watch.look(admin)
    assert sample.stored == 6
    assert sample.lags == {"quick": 0, "idle": 6}
    assert sample.dead_letters == 0


def test_marks_are_put_at_their_moment() -> None:
    watch = Watch("flights", [], "")
    watch.mark("killed")
    watch.mark("restarted")
    assert [mark.label for mark in watch.marks] == ["killed", "restarted"]
    assert 0 <= watch.marks[0].at_s <= watch.marks[1].at_s
