"""A load is sent as it was described, and what fails is counted."""

from __future__ import annotations

import random

import pytest

from rocketpipe.bench.produce import HOPELESS, MAX_WINDOW, ProduceLoad, produce
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.producer.producer import Producer
from rocketpipe.client.producer.sending.batching import Batching
from rocketpipe.testing import Cluster


@pytest.mark.parametrize("batching", [None, Batching()])
async def test_every_message_arrives_and_is_timed(
    admin: Admin, servers: Cluster, batching: Batching | None
) -> None:
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1

    async with Producer(servers.name_server, batching=batching) as producer:
        report = await produce(
            producer,
            ProduceLoad("load", messages=50, size=100, window=8),
            chance=random.Random(1),
            advance=advance,
        )
    assert (report.messages, report.bytes, report.errors.count) == (50, 5000, 0)
    assert (done, report.times.count) == (50, 50)
    assert (await admin.topics.stats("load")).messages == 50


async def test_a_run_that_only_fails_ends_early(servers: Cluster) -> None:
    async with Producer(servers.name_server, timeout_ms=1000, max_message_bytes=10) as producer:
        report = await produce(
            producer,
            ProduceLoad("load", messages=10_000, size=100, window=4),
            chance=random.Random(1),
        )
    assert report.messages == 0
    assert report.errors.kinds == {"MessageRefused": report.errors.count}
    assert HOPELESS <= report.errors.count < HOPELESS + 4


@pytest.mark.parametrize(
    ("messages", "size", "window", "what"),
    [
        (0, 1, 1, "messages 0: 1 or more"),
        (1, 0, 1, "size 0: from 1 to"),
        (1, 1, MAX_WINDOW + 1, "window 10001: from 1 to 10000"),
    ],
)
def test_a_load_that_makes_no_sense_is_refused(
    messages: int, size: int, window: int, what: str
) -> None:
    with pytest.raises(ValueError, match=what):
        ProduceLoad("load", messages, size, window)
