"""The event log, read while it grows."""

from __future__ import annotations

import json
from pathlib import Path

from rocketpipe.projects.progress import EventLog

EVENT = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"


def line(number: int) -> str:
    return json.dumps({"Event": EVENT, "progress": {"batchId": number}}) + "\n"


def numbers(log: EventLog) -> list[int]:
    return [progress["batchId"] for progress in log.news()]


def test_each_event_is_read_once_and_a_half_line_later(tmp_path: Path) -> None:
    log = EventLog(tmp_path)
    assert numbers(log) == []
    place = tmp_path / "eventlog_v2_local-1"
    place.mkdir()
    first = place / "events_1_local-1"
    first.write_text(line(0) + '{"Event":"Other"}\n' + line(1)[:20])
    assert numbers(log) == [0]
    with first.open("a") as file:
        file.write(line(1)[20:])
    assert numbers(log) == [1]
    assert numbers(log) == []


def test_files_are_read_in_their_order_and_removed_when_done(tmp_path: Path) -> None:
    place = tmp_path / "eventlog_v2_local-1"
    place.mkdir()
    log = EventLog(tmp_path)
    for number in (2, 10, 9):
        (place / f"events_{number}_local-1").write_text(line(number))
    assert numbers(log) == [2, 9, 10]
    assert [file.name for file in place.iterdir()] == ["events_10_local-1"]
    with (place / "events_10_local-1").open("a") as file:
        file.write(line(11))
    assert numbers(log) == [11]
