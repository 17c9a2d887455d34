"""What a table took of its topic."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.planning.offsets import StreamOffset
from rocketpipe.tables.spans import Queue, Spans, leaps

FIRST, SECOND = Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 1)


def offset(ends: dict[int, int], begins: dict[int, int] | None = None) -> StreamOffset:
    def of(numbers: dict[int, int]) -> dict[MessageQueue, QueueOffset]:
        return {
            MessageQueue(topic="orders", broker_name="broker-a", queue_id=queue): QueueOffset(at)
            for queue, at in numbers.items()
        }

    return StreamOffset(of(ends), of(begins or {}))


def test_a_queue_begins_where_its_first_batch_did_and_leaps_are_kept(tmp_path: Path) -> None:
    first, second = offset({0: 5}, {0: 2}), offset({0: 9, 1: 3}, {0: 7, 1: 0})
    spans = Spans().with_batch(None, first)
    assert (spans.begins, spans.skipped) == ({FIRST: 2}, {})
    spans = spans.with_batch(first, second)
    assert spans.begins == {FIRST: 2, SECOND: 0}
    assert spans.skipped == {FIRST: ((5, 7),)}
    assert spans.with_batch(first, second) == spans  # it came again
    assert spans.with_batch(second, offset({0: 12, 1: 3}, {1: 3})) == spans
    spans = spans.with_columns(["note"], second)
    assert spans.since == {"note": {FIRST: 9, SECOND: 3}}
    assert spans.with_columns(["note"], offset({0: 99})) == spans
    kept = tmp_path / "spans.json"
    spans.write(kept)
    assert Spans.read(kept) == spans


def test_what_is_not_there_is_nothing_and_what_is_no_such_text_is_told(tmp_path: Path) -> None:
    assert Spans.read(tmp_path / "none") == Spans()
    (tmp_path / "other").write_text('{"v": 7}')
    with pytest.raises(ValueError, match="version 1"):
        Spans.read(tmp_path / "other")


def test_what_a_batch_does_not_read_on_from_is_told() -> None:
    first = offset({0: 5, 1: 3})
    assert leaps(None, first) == {}
    assert leaps(first, offset({0: 9, 1: 4}, {0: 5})) == {}
    assert leaps(first, offset({0: 9, 1: 1, 2: 8}, {0: 7, 1: 0, 2: 4})) == {
        FIRST: (5, 7),
        SECOND: (3, 0),  # made anew
        Queue("orders", "broker-a", 2): (0, 4),  # came, and lost its first ones unseen
    }
