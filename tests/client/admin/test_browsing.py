"""Topics read backwards: the newest first, in pages that lose and repeat nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe import Admin, Producer, ReceivedMessage
from rocketpipe.client.admin.browsing import BLOCK
from rocketpipe.testing.cluster import cluster

pytestmark = pytest.mark.scenario


async def test_pages_are_merged_by_time_and_bounded_by_what_is_scanned(tmp_path: Path) -> None:
    count = 3 * BLOCK
    async with (
        cluster(tmp_path) as servers,
        Admin(servers.name_server) as admin,
        Producer(servers.name_server) as producer,
    ):
        await admin.topics.create("t", queues=3)
        for number in range(count):
            await producer.send("t", b"%d" % number)
        ends = await admin.offsets.ends("t")
        left = {queue: (one.least, one.end) for queue, one in ends.items()}
        found: list[ReceivedMessage] = []
        while left:
            page = await admin.browsing.newest(left, lambda message: message, limit=7)
            found += page.rows
            left = page.left
            assert page.is_complete is not bool(left)
        assert len({message.offset_id for message in found}) == len(found) == count
        times = [message.stored_ms for message in found]
        assert times == sorted(times, reverse=True)

        everything = {queue: (one.least, one.end) for queue, one in ends.items()}
        wanted = await admin.browsing.newest(
            everything,
            lambda message: message.body if message.body.endswith(b"7") else None,
            limit=50,
        )
        assert {int(body) % 10 for body in wanted.rows} == {7}
        assert wanted.scanned == count
        short = await admin.browsing.newest(everything, lambda _: None, limit=1, scanned=10)
        assert not short.is_complete
        assert short.scanned < count
        assert (await admin.browsing.newest({}, lambda _: None, limit=1)).is_complete
