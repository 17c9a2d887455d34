"""What a topic has is read, and its group has come no further."""

from __future__ import annotations

from rocketpipe.bench.consume import consume
from rocketpipe.bench.report import Report
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.consumer.pull import PullConsumer
from rocketpipe.client.producer.producer import Producer
from rocketpipe.model.names import TOOLS_CONSUMER_GROUP
from rocketpipe.testing import Cluster


async def read(admin: Admin, servers: Cluster, messages: int | None = None) -> tuple[Report, int]:
    told = 0

    def advance(count: int) -> None:
        nonlocal told
        told += count

    async with PullConsumer(
        servers.name_server, group=TOOLS_CONSUMER_GROUP, auto_commit=False
    ) as consumer:
        ends = await admin.offsets.ends("load")
        report = await consume(consumer, ends, messages=messages, advance=advance)
    return report, told


async def test_all_that_is_there_is_read_and_nothing_is_committed(
    admin: Admin, servers: Cluster
) -> None:
    async with Producer(servers.name_server) as producer:
        for number in range(50):
            await producer.send("load", b"x" * (number + 1))
    report, told = await read(admin, servers)
    assert (report.messages, told, report.errors.count) == (50, 50, 0)
    assert report.bytes == sum(range(51))
    places = await admin.offsets.of_group(TOOLS_CONSUMER_GROUP, "load")
    assert [place.committed for place in places] == [None, None]
    report, told = await read(admin, servers, messages=7)
    assert (report.messages, told) == (7, 7)


async def test_an_empty_topic_is_read_at_once(admin: Admin, servers: Cluster) -> None:
    report, told = await read(admin, servers)
    assert (report.messages, told, report.times.count) == (0, 0, 0)
