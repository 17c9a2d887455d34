"""Dead letters by kind of error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.waiting import until

from rocketpipe.blocking import DEAD_LETTER, Admin, Producer, PushConsumer, ReceivedMessage
from rocketpipe.errors import ConfigError
from rocketpipe.jobs.running import JobRun
from rocketpipe.testing.servers import Servers

RunJob = Callable[..., JobRun]


@pytest.mark.spark
def test_letters_are_told_by_kind(run_job: RunJob, job_servers: Servers, admin: Admin) -> None:
    admin.topics.create("visits", queues=1)

    def handle(message: ReceivedMessage) -> object:
        return DEAD_LETTER

    consumer = PushConsumer(job_servers.name_server, group="guests", start="first")
    consumer.subscribe("visits", handle)
    with Producer(job_servers.name_server) as producer, consumer:
        for number in range(5):
            producer.send("visits", b"visit %d" % number, keys=[f"V{number}"])
        asyncio.run(until(lambda: admin.dead_letters.count("guests").letters == 5))
    found = run_job("dead-letters", groups=["guests"], since_ms=3_600_000)
    assert found.outcome.headline == "5 dead letters of 1 group: 1 kind of error"
    (kind,) = found.outcome.tables["kinds"].to_pylist()
    assert (kind["kind"], kind["origin"], kind["letters"]) == (
        "the consumer gave up on it",
        "visits",
        5,
    )
    samples = found.outcome.tables["samples"].to_pylist()
    assert len(samples) == 3
    assert samples[0]["body"].startswith("visit ")
    assert sum(row["letters"] for row in found.outcome.tables["over_time"].to_pylist()) == 5
    assert len(found.outcome.plots) == 2
    with pytest.raises(ConfigError, match="nobody has no dead letters; groups that have some: gue"):
        run_job("dead-letters", groups=["nobody"])
