"""Findings, put together; what they are of is in test_comparing.py."""

from __future__ import annotations

import pyarrow as pa

from rocketpipe.tables.comparing import EXPECTED
from rocketpipe.tables.differences import RUNS_OF_A_BUCKET, Differences, Finding, joined


def test_a_bucket_names_so_many_runs_and_counts_the_rest() -> None:
    offsets = list(range(0, 100, 2))
    count = len(offsets)
    bucket = pa.table(
        {
            "broker": ["a"] * count,
            "queue_id": [0] * count,
            "queue_offset": offsets,
            "side": [EXPECTED] * count,
            "digest": offsets,
            "whole": offsets,
            "body": offsets,
            "is_bad": [False] * count,
        }
    )
    counts, findings = joined(Differences({})(bucket).to_pylist())
    assert counts == {"missing": 50}
    assert len(findings) == RUNS_OF_A_BUCKET


def test_runs_that_meet_are_one() -> None:
    rows = [
        {"kind": "missing", "broker": "a", "queue_id": 1, "first": 1024, "last": 1030, "number": 7},
        {
            "kind": "missing",
            "broker": "a",
            "queue_id": 1,
            "first": 1000,
            "last": 1023,
            "number": 24,
        },
        {"kind": "twice", "broker": "a", "queue_id": 1, "first": 1031, "last": 1031, "number": 1},
        {"kind": "missing", "broker": "a", "queue_id": 1, "first": None, "last": None, "number": 9},
    ]
    counts, findings = joined(rows)
    assert counts == {"missing": 40, "twice": 1}
    assert findings == [
        Finding("missing", "a", 1, 1000, 1030),
        Finding("twice", "a", 1, 1031, 1031),
    ]
    assert findings[0].number == 31
