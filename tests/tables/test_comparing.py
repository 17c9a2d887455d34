"""Digests of both sides by bucket, and what is found where they differ; without Spark."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from rocketpipe.tables import comparing
from rocketpipe.tables.columns import BAD_ROWS, DIGEST
from rocketpipe.tables.comparing import (
    LOST,
    UNKNOWN,
    Bounds,
    Comparison,
    Pair,
    PlaceRange,
    StoredRows,
)
from rocketpipe.tables.decoding import Decoding, RowDecoder
from rocketpipe.tables.differences import Differences, Finding, joined
from rocketpipe.tables.digests import of_bodies
from rocketpipe.tables.spec import TableSpec
from rocketpipe.tables.stored import UnreadablePart

Messages = Callable[..., pa.RecordBatch]

HERE: Pair = ("broker-a", 2)
SPEC = TableSpec(
    topic="orders", name_server="127.0.0.1:1", decode="json", schema="n INT, note STRING"
)


@dataclass(frozen=True)
class Held:
    """Rows of a table that a test keeps in memory."""

    batch: pa.RecordBatch
    is_lost: bool = False

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        yield self.batch.select(schema.names)
        if self.is_lost:
            raise UnreadablePart("part-1.parquet: gone")


class Both:
    """A topic of one queue, and a table that has what it should."""

    def __init__(self, messages: Messages, bodies: list[bytes | None], monkeypatch: Any) -> None:
        sent = messages(bodies)
        body = sent.column("body")
        sent = sent.set_column(sent.schema.get_field_index(DIGEST), DIGEST, of_bodies(body))
        self.topic = sent.drop_columns([DIGEST])
        self.rows, self.bad = RowDecoder(Decoding.of(SPEC)).split(sent)
        self.bounds = {HERE: Bounds(0, 0, len(bodies))}
        self.since: dict[str, dict[Pair, int]] = {}
        self.places: tuple[PlaceRange, ...] = ()
        monkeypatch.setattr(comparing, "read_part", lambda *given: iter([self.topic]))

    def compared(self) -> tuple[Counter[str], list[Finding]]:
        topic: Any = "read by the fake"
        parts = (topic, *self.places, StoredRows(Held(self.rows)), StoredRows(Held(self.bad), True))
        source = {"nameServer": "127.0.0.1:1", "subscribe": "orders"}
        task = Comparison(parts, Decoding.of(SPEC), source, self.bounds, self.since, 2)
        sides: dict[tuple[bool, Pair, int], tuple[int, int]] = defaultdict(lambda: (0, 0))
        numbers = pa.RecordBatch.from_pydict({"id": list(range(len(parts)))})
        for batch in task.sums(iter([numbers])):
            for row in batch.to_pylist():
                assert row["side"] not in (LOST, UNKNOWN)
                key = (row["side"] == 0, (row["broker"], row["queue_id"]), row["bucket"])
                number, digest = sides[key]
                sides[key] = (number + row["number"], digest ^ row["digest"])
        wrong: dict[Pair, set[int]] = defaultdict(set)
        for _, pair, bucket in list(sides):
            if sides[True, pair, bucket] != sides[False, pair, bucket]:
                wrong[pair].add(bucket)
        only = {pair: frozenset(buckets) for pair, buckets in wrong.items()}
        if not only:
            return Counter(), []
        rows = [
            batch.filter(pa.array([each in only.get(HERE, ()) for each in _buckets(batch)]))
            for batch in replace(task, only=only).rows(iter([numbers]))
        ]
        whole = pa.Table.from_batches([each for each in rows if each.num_rows])
        found: list[Any] = []
        for bucket in set(_buckets(whole)):
            mine = whole.filter(pa.array([each == bucket for each in _buckets(whole)]))
            found += Differences(self.bounds)(mine).to_pylist()
        return joined(found)


def _buckets(rows: Any) -> list[int]:
    buckets: list[int] = rows.column("bucket").to_pylist()
    return buckets


BODIES: list[bytes | None] = [
    b"no" if number % 5 == 4 else b'{"n": %d, "note": "x"}' % number for number in range(20)
]


@pytest.fixture
def both(messages: Messages, monkeypatch: pytest.MonkeyPatch) -> Both:
    return Both(messages, BODIES, monkeypatch)


def changed(batch: pa.RecordBatch, row: int, column: str, value: Any) -> pa.RecordBatch:
    values = batch.column(column).to_pylist()
    values[row] = value
    kind = batch.schema.field(column)
    return batch.set_column(batch.schema.get_field_index(column), kind, pa.array(values, kind.type))


def test_a_table_that_has_all_is_equal_in_whatever_order(both: Both) -> None:
    assert both.compared() == (Counter(), [])
    both.rows = both.rows.take(pa.array(range(both.rows.num_rows - 1, -1, -1)))
    assert both.compared() == (Counter(), [])


def test_rows_that_are_missing_are_told_as_runs(both: Both) -> None:
    both.rows = both.rows.slice(2)
    both.bad = both.bad.slice(0, 3)
    assert both.compared() == (
        {"missing": 3},
        [Finding("missing", *HERE, 0, 1), Finding("missing", *HERE, 19, 19)],
    )


def test_a_row_of_another_place_is_extra_and_one_more_is_twice(both: Both) -> None:
    both.rows = changed(both.rows, 3, "queue_offset", 400)
    assert both.compared()[0] == {"missing": 1, "extra": 1}
    both.rows = changed(both.rows, 3, "queue_offset", 4)  # which is a bad row, too
    assert both.compared()[0] == {"missing": 1, "twice": 1}


@pytest.mark.parametrize(
    ("column", "value"),
    [("n", 7), ("n", None), ("note", "y"), ("keys", []), ("tags", "t"), (DIGEST, 1)],
)
def test_whatever_value_is_another_is_found(both: Both, column: str, value: Any) -> None:
    both.rows = changed(both.rows, 5, column, value)
    assert both.compared() == ({"different": 1}, [Finding("different", *HERE, 6, 6)])


def test_a_bad_row_is_compared_by_its_body_and_not_by_its_error(both: Both) -> None:
    both.bad = changed(both.bad, 0, "error", "another")
    assert both.compared()[0] == {}
    both.bad = changed(both.bad, 0, "body", b"yes")
    assert both.compared() == ({"different": 1}, [Finding("different", *HERE, 4, 4)])


def test_a_message_may_be_a_row_in_one_and_bad_in_the_other(both: Both) -> None:
    # It was decoded otherwise, then: what is known of it is its body.
    bad = both.bad.slice(0, 1)
    row = both.rows.slice(0, 1)
    for name in ("queue_offset", "message_id"):
        row = row.set_column(row.schema.get_field_index(name), name, bad.column(name))
    digest = of_bodies(bad.column("body"))
    row = row.set_column(row.schema.get_field_index(DIGEST), DIGEST, digest)
    both.bad = both.bad.slice(1)
    whole = both.rows
    both.rows = pa.concat_batches([whole, row.cast(whole.schema)])
    assert both.compared()[0] == {}
    other = changed(row.cast(whole.schema), 0, DIGEST, 5)
    both.rows = pa.concat_batches([whole, other])
    assert both.compared()[0] == {"different": 1}


def test_a_column_that_came_later_is_null_before_or_as_in_the_message(both: Both) -> None:
    both.since = {"note": {HERE: 8}}
    for row in range(4):
        both.rows = changed(both.rows, row, "note", None)
    assert both.compared()[0] == {}  # rows 4 and 5, before it, were replayed
    both.rows = changed(both.rows, 5, "note", "z")
    both.rows = changed(both.rows, 9, "note", None)
    counts, findings = both.compared()
    assert counts == {"different": 2}
    assert [each.first for each in findings] == [6, 11]


def test_what_the_topic_has_no_more_is_seen_to_be_there_once(both: Both) -> None:
    both.topic = both.topic.slice(8)
    both.bounds = {HERE: Bounds(0, 8, 20)}
    both.places = (PlaceRange(HERE, 0, 8),)
    both.rows = changed(both.rows, 1, "n", 99)  # that cannot be known
    assert both.compared()[0] == {}
    both.rows = pa.concat_batches([both.rows.slice(1), both.rows.slice(1, 1)])
    counts, findings = both.compared()
    assert counts == {"gap": 1, "twice": 1}
    assert findings == [Finding("gap", *HERE, 0, 0), Finding("twice", *HERE, 1, 1)]


def test_parts_that_are_lost_and_rows_of_which_nothing_is_known_are_counted(both: Both) -> None:
    bounds = {HERE: Bounds(None, 8, 20)}
    part = StoredRows(Held(both.rows, is_lost=True))
    task = Comparison((part,), Decoding.of(SPEC), {}, bounds, {}, 2)
    numbers = pa.RecordBatch.from_pydict({"id": [0]})
    [batch] = task.sums(iter([numbers]))
    words = [row for row in batch.to_pylist() if row["side"] in (LOST, UNKNOWN)]
    assert [(row["side"], row["broker"], row["number"]) for row in words] == [
        (UNKNOWN, "", 7),
        (LOST, "part-1.parquet: gone", 1),
    ]


def test_bad_rows_of_a_batch_that_the_table_has_not_are_not_looked_at(both: Both) -> None:
    part = StoredRows(Held(both.bad.select(BAD_ROWS.names)), is_bad=True, is_ahead=True)
    task = Comparison((part,), Decoding.of(SPEC), {}, {HERE: Bounds(0, 0, 10)}, {}, 2)
    [batch] = task.sums(iter([pa.RecordBatch.from_pydict({"id": [0]})]))
    assert sum(batch.column("number").to_pylist()) == 2
