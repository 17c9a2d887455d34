"""Bad rows decoded again, in a task; without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rocketpipe.tables.columns import BAD_ROWS
from rocketpipe.tables.decoding import Decoding, RowDecoder
from rocketpipe.tables.files import Folder
from rocketpipe.tables.replay_task import Choice, ReplayTask
from rocketpipe.tables.spec import TableSpec

Messages = Callable[..., pa.RecordBatch]


@dataclass(frozen=True)
class Held:
    batch: pa.RecordBatch

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        yield self.batch.select(schema.names)


def spec(**fields: Any) -> TableSpec:
    return TableSpec(
        topic="orders",
        name_server="127.0.0.1:1",
        decode="json",
        **{"schema": "n INT", "new_columns": "quarantine", **fields},
    )


@pytest.fixture
def bad(messages: Messages) -> pa.RecordBatch:
    bodies = [b'{"n": 1, "tip": 2}', b"no", None, b'{"n": "x", "tip": 3}', b'{"tip": 4}']
    _, bad = RowDecoder(Decoding.of(spec())).split(messages(bodies))
    assert bad.num_rows == 5
    return bad


def run(place: Path, bad: pa.RecordBatch, to: Any, choice: Choice) -> dict[str, Any]:
    decoding = Decoding.of(spec(schema="n INT, tip INT"))
    folders = {name: place / name for name in ("rows", "bad", "done")}
    task = ReplayTask(
        (Held(bad),), choice, to, decoding, *(Folder(str(each)) for each in folders.values())
    )
    [listed] = task(iter([pa.RecordBatch.from_pydict({"id": [0]})]))
    found: dict[str, Any] = {"numbers": {}}
    for kind, facts in zip(*(column.to_pylist() for column in listed.columns), strict=True):
        if kind == "numbers":
            found["numbers"] = json.loads(facts)
        else:
            path = folders[kind] / json.loads(facts)["path"]
            found[kind] = pq.ParquetFile(path).read().to_pylist()
    return found


def test_what_can_be_decoded_now_is_a_row_and_the_rest_has_its_new_error(
    tmp_path: Path, bad: pa.RecordBatch
) -> None:
    found = run(tmp_path, bad, "table", Choice())
    assert [(row["n"], row["tip"], row["queue_offset"]) for row in found["rows"]] == [
        (1, 2, 0),
        (None, 4, 4),
    ]
    errors = {row["queue_offset"]: row["error"] for row in found["bad"]}
    assert errors.keys() == {1, 2, 3}
    assert errors[3] == 'n: "x" does not fit'
    assert "damaged" in errors[2]
    assert found["numbers"] == {"replayed": 2, "failed": 2, "left": 1}


def test_what_is_sent_is_kept_as_it_was_and_an_error_chooses(
    tmp_path: Path, bad: pa.RecordBatch
) -> None:
    found = run(tmp_path, bad, "topic", Choice(error="new col.mns"))
    assert [row["body"] for row in found["done"]] == [b'{"n": 1, "tip": 2}', b'{"tip": 4}']
    assert found["numbers"] == {"replayed": 2, "failed": 0, "left": 3}
    assert "rows" not in found


def test_places_are_settled_whatever_they_hold(tmp_path: Path, bad: pa.RecordBatch) -> None:
    places = frozenset({("broker-a", 2, 1), ("broker-a", 2, 2), ("broker-b", 2, 3)})
    found = run(tmp_path, bad, "settled", Choice(places=places))
    assert [row["queue_offset"] for row in found["done"]] == [1, 2]
    assert sorted(row["queue_offset"] for row in found["bad"]) == [0, 3, 4]
    assert found["numbers"] == {"replayed": 2, "failed": 0, "left": 3}
    assert BAD_ROWS.names == list(found["done"][0])
