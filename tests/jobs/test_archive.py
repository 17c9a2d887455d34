"""Topics archived."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rocketpipe.blocking import Admin, Message, Producer
from rocketpipe.client.admin.offsets import Ends
from rocketpipe.jobs.archive import verified
from rocketpipe.jobs.queue_runs import Coverage, Queue
from rocketpipe.jobs.running import JobRun
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.tables import SpecMismatch
from rocketpipe.testing.servers import Servers

RunJob = Callable[..., JobRun]
QUEUE = Queue("t", "a", 0)


def ends(least: int, end: int) -> dict[Queue, Ends]:
    return {QUEUE: Ends(QueueOffset(least), QueueOffset(end))}


def test_all_from_the_first_that_was_archived_has_to_be_there() -> None:
    (row,) = verified({QUEUE: Coverage(8, ((2, 10),))}, ends(5, 10), {QUEUE: 2})
    assert (row["begin"], row["verified_to"], row["missing"]) == (2, 10, 0)
    (row,) = verified({QUEUE: Coverage(5, ((5, 10),))}, ends(7, 12), {QUEUE: 2})
    found = [(each["first"], each["end"], each["still_in_topic"]) for each in row["problems"]]
    assert found == [(2, 5, False), (10, 12, True)]
    (row,) = verified({QUEUE: Coverage(6, ((0, 5),), ((3, 4),))}, ends(0, 5), {QUEUE: 0})
    assert [each["problem"] for each in row["problems"]] == ["twice"]


def test_a_queue_that_no_broker_has_is_verified_by_itself() -> None:
    (row,) = verified({QUEUE: Coverage(3, ((0, 3),))}, {}, {QUEUE: 0})
    assert (row["verified_to"], row["missing"]) == (3, 0)
    (row,) = verified({}, ends(4, 4), {})
    assert row["missing"] == 0


@pytest.mark.spark
def test_an_archive_goes_on_and_finds_what_is_lost(
    run_job: RunJob, job_servers: Servers, admin: Admin
) -> None:
    admin.topics.create("bills", queues=2)
    with Producer(job_servers.name_server) as producer:
        some = [Message("bills", b"%d" % each, properties={"city": "Oslo"}) for each in range(30)]
        producer.send_batch(some)
        first = run_job("archive", topics="bills", format="parquet")
        assert first.outcome.headline == "30 messages more archived, 30 in all: every one is " + (
            "there once"
        )
        producer.send_batch(some[:5])
        producer.send_batch(some[:5])
    second = run_job("archive", topics=["bills"])
    assert second.ok
    assert second.record.figures == {
        "new_rows": 10,
        "rows": 40,
        "missing": 0,
        "twice": 0,
        "damaged": 0,
    }
    (topic,) = second.outcome.tables["topics"].to_pylist()
    with pytest.raises(SpecMismatch, match="format"):
        run_job("archive", topics=["bills"], format="delta")
    first_batch, *later = sorted(Path(topic["table"]).glob("batch=*"))
    some_file = next(first_batch.rglob("*.parquet"))
    shutil.copy(some_file, some_file.with_name("again.parquet"))
    for lost in (path for batch in later for path in batch.rglob("*.parquet")):
        lost.unlink()
    third = run_job("archive", topics=["bills"])
    assert not third.ok
    assert third.record.figures["missing"] == 10
    assert third.record.figures["twice"] == pq.read_metadata(some_file).num_rows
    problems = third.outcome.tables["problems"].to_pylist()
    assert {each["problem"] for each in problems} == {"missing", "twice"}
    assert all(each["still_in_topic"] for each in problems)
