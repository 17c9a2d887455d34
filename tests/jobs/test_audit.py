"""Topics audited, by themselves and by a ledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpipe.blocking import Admin, Producer
from rocketpipe.client.admin.offsets import Ends
from rocketpipe.jobs.audit import audited
from rocketpipe.jobs.queue_runs import Coverage, Queue
from rocketpipe.jobs.running import JobRun
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.testing.servers import Servers

RunJob = Callable[..., JobRun]
QUEUE = Queue("t", "a", 0)


def test_offsets_that_no_message_has_are_missing() -> None:
    ends = {QUEUE: Ends(QueueOffset(0), QueueOffset(9))}
    (row,) = audited({QUEUE: Coverage(6, ((2, 5), (6, 9)), ((7, 8),), 1)}, ends)
    assert (row["first"], row["missing"], row["twice"], row["out_of_order"]) == (2, 1, 1, 1)
    assert [(each["problem"], each["queue_offset"]) for each in row["problems"]] == [
        ("missing", 5),
        ("twice", 7),
    ]
    (row,) = audited({}, ends)
    assert row["messages"] == row["missing"] == 0


@pytest.mark.spark
def test_a_ledger_is_held_against_the_topic(
    run_job: RunJob, job_servers: Servers, admin: Admin, tmp_path: Path
) -> None:
    admin.topics.create("paid", queues=1)
    rows = []
    with Producer(job_servers.name_server) as producer:
        for number in range(20):
            result = producer.send("paid", b"%d" % number, keys=[f"K{number}"])
            place = {
                "broker": result.queue.broker_name,
                "queue_id": result.queue.queue_id,
                "queue_offset": result.queue_offset,
            }
            rows.append({"message_id": result.message_id, "sequence": number, **place})
    ledger = tmp_path / "sent.jsonl"
    ledger.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run_job("audit", topics="paid", ledger=str(ledger)).outcome.headline == (
        "20 messages in 1 queue, held against 20 rows of the ledger: each is there once, in order"
    )
    rows[3]["sequence"], rows[4]["sequence"] = 4, 3
    rows[5]["queue_offset"] = 17
    more = [
        {"key": "K6"},
        {"message_id": "never"},
        {"message_id": "refused", "acknowledged": False},
        {"message_id": "old", **place, "queue_offset": -1},
    ]
    ledger.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *more]))
    found = run_job("audit", topics="paid", ledger=str(ledger))
    counts = {row["what"]: row["count"] for row in found.outcome.tables["counts"].to_pylist()}
    assert counts == {
        "missing": 0,
        "twice": 0,
        "out of order": 0,
        "lost": 1,
        "stored twice": 0,
        "elsewhere": 1,
        "overtaken": 1,
        "ledger rows": 23,
        "aged out": 1,
    }
    problems = found.outcome.tables["problems"].to_pylist()
    assert {row["message"] for row in problems if row["problem"] == "lost"} == {"never"}
    assert not found.ok
