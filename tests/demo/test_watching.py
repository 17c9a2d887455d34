"""What a look at the cluster finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from demo.watching import Watch

from rocketpipe import Admin, Producer, PullConsumer
from rocketpipe.testing import cluster


@pytest.mark.scenario
async def test_a_look_finds_what_is_stored_and_how_far_groups_are(tmp_path: Path) -> None:
    counted = {"choosy": lambda: 2}
    watch = Watch("flights", ["quick", "idle", "choosy"], "%DLQ%quick", counted)
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
    assert sample.lags == {"quick": 0, "idle": 6, "choosy": 6}
    assert sample.read == {"quick": 6, "idle": 0, "choosy": 2}
    assert sample.dead_letters == 0


def test_marks_last_as_long_as_what_they_name() -> None:
    watch = Watch("flights", [], "")
    with watch.lasting("killed", is_blind=True):
        assert watch.marks == []
    [mark] = watch.marks
    assert (mark.label, mark.is_blind) == ("killed", True)
    assert mark.until_s is not None
    assert 0 <= mark.at_s <= mark.until_s
