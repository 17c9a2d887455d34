"""Tables that a stream fills exactly once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from rocketpipe.pipeline import delta
from rocketpipe.pipeline.delta import BatchConflict, BatchTable


def rows(*numbers: int) -> pa.Table:
    return pa.table({"number": list(numbers)})


def sums(**flights: int) -> pa.Table:
    return pa.table({"carrier": list(flights), "flights": list(flights.values())})


def numbers(table: BatchTable) -> list[int]:
    return sorted(table.read().column("number").to_pylist())


def test_a_batch_that_comes_again_is_left_out(tmp_path: Path) -> None:
    table = BatchTable(tmp_path / "t")
    assert table.append_rows(rows(1, 2), "q", 0)
    assert table.append_rows(rows(3), "q", 1)
    assert not table.append_rows(rows(3), "q", 1)
    assert not table.append_rows(rows(1, 2), "q", 0)  # nor does it set the number back
    assert not table.append_rows(rows(3), "q", 1)
    assert numbers(table) == [1, 2, 3]
    assert table.count() == 3
    assert table.has("q", 1)
    assert not table.has("q", 2)


def test_each_query_has_numbers_of_its_own(tmp_path: Path) -> None:
    table = BatchTable(tmp_path / "t")
    assert table.append_rows(rows(1), "one", 7)
    assert table.append_rows(rows(2), "other", 0)
    assert not table.append_rows(rows(2), "other", 0)
    assert numbers(table) == [1, 2]


def test_rows_and_number_are_one_commit(tmp_path: Path) -> None:
    table = BatchTable(tmp_path / "t")
    for batch in range(3):
        table.append_rows(rows(batch), "q", batch)
        found = DeltaTable(tmp_path / "t")
        assert (found.version(), found.transaction_version("q")) == (batch, batch)


def test_sums_are_added_up_once(tmp_path: Path) -> None:
    table = BatchTable(tmp_path / "t")

    def add(batch: int, **flights: int) -> bool:
        return table.add_up_rows(sums(**flights), "q", batch, by=["carrier"], sums=["flights"])

    assert add(0, UA=2, AA=1)
    assert add(1, UA=5, B6=4)
    assert not add(1, UA=5, B6=4)
    found = table.read().to_pydict()
    assert dict(zip(found["carrier"], found["flights"], strict=True)) == {"UA": 7, "AA": 1, "B6": 4}


def changes(*each: tuple[str, int | None, int, int], stored: int = 0) -> pa.Table:
    """Rows of (id, cents, queue, offset); those without cents are gone."""
    return pa.table(
        {
            "id": [one[0] for one in each],
            "cents": pa.array([one[1] for one in each], pa.int64()),
            "broker": ["a"] * len(each),
            "queue_id": pa.array([one[2] for one in each], pa.int32()),
            "queue_offset": pa.array([one[3] for one in each], pa.int64()),
            "store_timestamp": pa.array([stored + one[2] for one in each], pa.timestamp("us")),
            "gone": pa.array([one[1] is None for one in each], pa.bool_()),
        }
    )


def test_the_last_row_of_each_key_is_there_once(tmp_path: Path) -> None:
    table = BatchTable(tmp_path / "t")

    def upsert(batch: int, rows: pa.Table, query: str = "q") -> bool:
        return table.upsert_rows(rows, query, batch, key=["id"], deletes="gone")

    def cents() -> dict[str, int]:
        found = table.read().to_pydict()
        return dict(zip(found["id"], found["cents"], strict=True))

    first = changes(("A", 3, 0, 2), ("A", 1, 0, 0), ("B", 2, 0, 1), ("C", None, 0, 3))
    assert upsert(0, first)
    assert cents() == {"A": 3, "B": 2}
    assert "gone" not in table.read().column_names
    # Of two queues the row that was stored last.
    second = changes(("A", None, 0, 4), ("B", 9, 0, 6), ("B", 7, 1, 5), ("D", 4, 0, 5))
    assert upsert(1, second)
    assert not upsert(1, second)
    assert not upsert(0, first)
    assert cents() == {"B": 7, "D": 4}
    # From a new checkpoint all comes again: what is older than the table's own changes nothing.
    assert upsert(0, changes(("D", 1, 0, 1), ("D", None, 0, 2)), "another")
    assert cents() == {"B": 7, "D": 4}
    assert upsert(2, changes(("D", None, 0, 9)))
    assert upsert(3, changes(("D", 8, 0, 10)))
    assert cents() == {"B": 7, "D": 8}
    assert upsert(4, changes())
    assert DeltaTable(tmp_path / "t").transaction_version("q") == 3  # nothing was to be written
    assert upsert(5, changes(("B", 1, 1, 9)))
    assert DeltaTable(tmp_path / "t").transaction_version("q") == 5


def test_keys_may_be_of_several_columns_and_nothing_need_be_deleted(tmp_path: Path) -> None:
    table = BatchTable(tmp_path / "t")
    given = changes(("A", 1, 0, 0), ("A", 2, 1, 0), ("A", 3, 1, 1)).drop_columns(["gone"])
    table.upsert_rows(given, "q", 0, key=["id", "queue_id"])
    assert sorted(table.read().column("cents").to_pylist()) == [1, 3]


def test_rows_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    table = BatchTable(tmp_path / "t")
    placeless = changes(("A", 1, 0, 0)).drop_columns(["queue_offset"])
    with pytest.raises(ValueError, match="no column 'queue_offset': have it"):
        table.upsert_rows(placeless, "q", 0, key=["id"])
    with pytest.raises(ValueError, match="'cents' has nulls"):
        table.upsert_rows(changes(("A", None, 0, 0)), "q", 0, key=["cents"])
    assert table.count() == 0


def test_a_second_driver_of_the_same_changes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = BatchTable(tmp_path / "t")
    table.upsert_rows(changes(("A", 1, 0, 0)), "q", 0, key=["id"], deletes="gone")
    stale = DeltaTable(tmp_path / "t")
    again = changes(("A", 2, 0, 1))
    table.upsert_rows(again, "q", 1, key=["id"], deletes="gone")
    other = BatchTable(tmp_path / "t")
    monkeypatch.setattr(other, "_open", lambda: stale)  # it looked before the first one wrote
    with pytest.raises(BatchConflict, match="batch 1 was not written"):
        other.upsert_rows(again, "q", 1, key=["id"], deletes="gone")


@pytest.mark.parametrize(
    ("carriers", "said"), [(["UA", "UA"], "add them up first"), (["UA", None], "has nulls")]
)
def test_sums_that_would_be_added_wrongly_are_refused(
    tmp_path: Path, carriers: list[str | None], said: str
) -> None:
    table = BatchTable(tmp_path / "t")
    given = pa.table({"carrier": carriers, "flights": [1, 2]})
    with pytest.raises(ValueError, match=said):
        table.add_up_rows(given, "q", 0, by=["carrier"], sums=["flights"])
    assert table.count() == 0


def test_a_second_driver_of_the_same_batch_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = BatchTable(tmp_path / "t")
    table.append_rows(rows(1), "q", 0)
    stale = DeltaTable(tmp_path / "t")
    table.append_rows(rows(2), "q", 1)
    other = BatchTable(tmp_path / "t")
    monkeypatch.setattr(other, "_open", lambda: stale)  # it looked before the first one wrote
    with pytest.raises(BatchConflict, match=r"batch 1 was not written .* stop it") as refused:
        other.append_rows(rows(2), "q", 1)
    assert refused.value.batch == 1
    assert numbers(table) == [1, 2]


def test_the_number_outlives_compaction(tmp_path: Path) -> None:
    table = BatchTable(tmp_path / "t")
    for batch in range(4):
        table.append_rows(rows(batch), "q", batch)
    found = DeltaTable(tmp_path / "t")
    found.optimize.compact()
    found.create_checkpoint()
    assert not table.append_rows(rows(3), "q", 3)
    assert numbers(table) == [0, 1, 2, 3]


def test_partitions_are_as_asked_and_columns_may_be_chosen(tmp_path: Path) -> None:
    table = BatchTable(tmp_path / "t", partition_by=["carrier"])
    table.append_rows(sums(UA=1, AA=2), "q", 0)
    assert (tmp_path / "t" / "carrier=UA").is_dir()
    assert table.read(["flights"]).column_names == ["flights"]


def test_reading_what_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="write a batch first"):
        BatchTable(tmp_path / "t").read()


def test_a_frame_of_no_stream_is_refused() -> None:
    class Context:
        def getLocalProperty(self, name: str) -> None:  # noqa: N802 - Spark's name
            assert name == "sql.streaming.queryId"

    class Session:
        sparkContext = Context()  # noqa: N815 - Spark's name

    class Frame:
        sparkSession = Session()  # noqa: N815 - Spark's name

    with pytest.raises(ValueError, match="give the method to foreachBatch"):
        delta.query_of(Frame())  # type: ignore[arg-type]
