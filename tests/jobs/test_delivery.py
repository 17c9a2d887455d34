"""How messages travel, by what clients tell."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpipe.blocking import Admin, Producer
from rocketpipe.errors import ConfigError
from rocketpipe.jobs.running import JobRun
from rocketpipe.model import trace
from rocketpipe.model.trace import Consumed, Consuming, Outcome, Published, TraceRecord
from rocketpipe.testing.servers import Servers

RunJob = Callable[..., JobRun]
BEGAN_MS = 1_780_000_000_000


def published(message_id: str, at_ms: int, cost_ms: int = 5) -> TraceRecord:
    return Published(
        time_ms=BEGAN_MS + at_ms,
        region=None,
        group="shop",
        topic="orders",
        message_id=message_id,
        tags=None,
        keys=None,
        store_host="10.0.0.1:10911",
        body_bytes=10,
        cost_ms=cost_ms,
    )


def handled(
    message_id: str, at_ms: int, request: str, *, retries: int = 0, success: bool = True
) -> list[TraceRecord]:
    return [
        Consuming(
            time_ms=BEGAN_MS + at_ms,
            region=None,
            group="bill",
            request_id=request,
            message_id=message_id,
            retries=retries,
            keys=None,
        ),
        Consumed(
            request_id=request,
            message_id=message_id,
            cost_ms=7,
            success=success,
            keys=None,
            outcome=Outcome.SUCCESS if success else Outcome.FAILED,
            time_ms=BEGAN_MS + at_ms + 7,
            group="bill",
        ),
    ]


@pytest.mark.spark
def test_ways_are_told_from_traces(run_job: RunJob, job_servers: Servers, admin: Admin) -> None:
    admin.topics.create("ways", queues=1)
    admin.topics.create("unsent", queues=1)
    told = [
        *(published(f"m{number}", number * 10) for number in range(100)),
        *(
            each
            for number in range(100)
            for each in handled(f"m{number}", number * 10 + number + 1, f"r{number}")
        ),
        published("late", 0),
        *handled("late", 500, "r-a", success=False),
        *handled("late", 900, "r-b", retries=1),
        *handled("m3", 1_000, "r-c"),
        published("m4", 2_000),
    ]
    with Producer(job_servers.name_server) as producer:
        producer.send("ways", trace.encode(told).encode())
        producer.send("ways", b"no trace at all")
    found = run_job("delivery", trace_topic="ways")
    (row,) = found.outcome.tables["latency"].to_pylist()
    assert (row["topic"], row["group"], row["broker"]) == ("orders", "bill", "10.0.0.1:10911")
    assert (row["messages"], row["p50_ms"], row["max_ms"]) == (101, 51.0, 500.0)
    (handling,) = found.outcome.tables["handling"].to_pylist()
    assert (handling["deliveries"], handling["retries"], handling["failed"]) == (103, 1, 1)
    (sending,) = found.outcome.tables["sending"].to_pylist()
    assert (sending["sends"], sending["p99_ms"]) == (102, 5.0)
    duplicates = found.outcome.tables["duplicates"].to_pylist()
    assert {(each["what"], each["message_id"]) for each in duplicates} == {
        ("sent", "m4"),
        ("handled", "m3"),
    }
    assert not found.ok
    assert (
        run_job("delivery", trace_topic="ways", topics=["unsent"]).outcome.figures["messages"] == 0
    )
    with pytest.raises(ConfigError, match="there is no topic nowhere"):
        run_job("delivery", trace_topic="nowhere")
