"""Skew and lag."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpipe.blocking import Admin, Message, Producer, PullConsumer
from rocketpipe.client.admin.offsets import Ends
from rocketpipe.jobs.queue_runs import Queue
from rocketpipe.jobs.running import JobRun
from rocketpipe.jobs.skew import (
    Look,
    caught_up_s,
    group_rows,
    lag_rows,
    member_rows,
    queue_rows,
)
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.testing.servers import Servers

RunJob = Callable[..., JobRun]
QUEUES = [Queue("t", "a", number) for number in range(3)]


def look(at_s: float, *places: tuple[int, int]) -> Look:
    """Committed and end of each queue, at a moment."""
    return Look(
        at_s,
        {("g", queue): place for queue, place in zip(QUEUES, places, strict=True)},
        {
            queue: Ends(QueueOffset(0), QueueOffset(place[1]))
            for queue, place in zip(QUEUES, places, strict=True)
        },
    )


FIRST = look(0.0, (0, 100), (0, 200), (300, 300))
LAST = look(10.0, (50, 110), (10, 220), (300, 300))
CLIENTS = {("g", QUEUES[0]): "quick", ("g", QUEUES[1]): "slow", ("g", QUEUES[2]): "quick"}


@pytest.mark.parametrize(
    ("lag", "consumed", "produced", "after"),
    [(0, 0.0, 9.0, 0.0), (100, 12.0, 2.0, 10.0), (100, 2.0, 2.0, None), (1, 0.0, 0.0, None)],
)
def test_a_group_catches_up_if_it_is_faster(
    lag: int, consumed: float, produced: float, after: float | None
) -> None:
    assert caught_up_s(lag, consumed, produced) == after


def test_rates_are_between_the_first_look_and_the_last() -> None:
    rows = lag_rows(FIRST, LAST, CLIENTS)
    assert [(row["queue_id"], row["lag"], row["caught_up_in_s"]) for row in rows] == [
        (1, 210, None),
        (0, 60, 15.0),
        (2, 0, 0.0),
    ]
    (group,) = group_rows(rows)
    assert (group["lag"], group["consumed_a_second"], group["caught_up_in_s"]) == (270, 6.0, None)
    members = {row["client"]: (row["queues"], row["slow"]) for row in member_rows(rows)}
    assert members == {"quick": (2, False), "slow": (1, True)}


def test_a_queue_is_told_beside_the_others() -> None:
    rows = queue_rows(FIRST, LAST)
    assert [round(row["times_the_mean"], 2) for row in rows] == [0.52, 1.05, 1.43]
    assert rows[1]["produced_a_second"] == 2.0


@pytest.mark.spark
def test_lag_and_keys_of_a_topic_are_told(
    run_job: RunJob, job_servers: Servers, admin: Admin
) -> None:
    admin.topics.create("rides", queues=1)
    with Producer(job_servers.name_server) as producer:
        keys = ["hot"] * 30 + ["cold"] * 10
        producer.send_batch([Message("rides", b"x", keys=[key]) for key in keys])
    with PullConsumer(job_servers.name_server, group="drivers", start="first") as consumer:
        consumer.subscribe("rides")
        got = consumer.poll(10_000, most=8)
        consumer.commit()
    found = run_job("skew", topics=["rides"], measure_ms=200, sample=20)
    (group,) = found.outcome.tables["groups"].to_pylist()
    assert (group["group"], group["lag"], group["caught_up_in_s"]) == (
        "drivers",
        40 - len(got),
        None,
    )
    told = {row["key"]: row["messages"] for row in found.outcome.tables["keys"].to_pylist()}
    assert told == {"cold": 10, "hot": 10}
    assert found.outcome.headline.endswith("1 group will not have caught up at this rate")
