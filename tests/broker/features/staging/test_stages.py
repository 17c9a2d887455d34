"""Parts of stages: what is there, what is missing, what is too much."""

from __future__ import annotations

from rocketpipe.broker.features.staging.stages import Place, StageTable
from rocketpipe.model.offsets import LogOffset, QueueOffset

BATCH = ("app", 0)


def place(at: int, size: int = 10) -> Place:
    return Place(LogOffset(at), size, QueueOffset(at))


def test_parts_are_given_in_their_order_stage_by_stage() -> None:
    table = StageTable(1000)
    table.add("b", BATCH, 0, place(30), 1)
    table.add("a", BATCH, 1, place(20), 1)
    table.add("a", BATCH, 0, place(10), 1)
    assert [each.log_offset for each in table.places({"a": 2, "b": 1})] == [10, 20, 30]
    assert table.held_bytes == 30
    assert place(10).end == 20


def test_what_was_dropped_gives_way_to_what_comes_by_its_name() -> None:
    table = StageTable(1000)
    table.add("a", BATCH, 0, place(10), 1)
    table.add("a", BATCH, 1, place(20), 1)
    table.add("a", BATCH, 0, place(30), 2)  # only a stage that was dropped gets a part again
    assert table.places({"a": 1}) == [place(30)]
    table.add("a", ("app", 1), 0, place(40), 3)
    assert table.places({"a": 1}) == [place(40)]
    assert (len(table), table.held_bytes) == (1, 10)
    table.drop("a")
    table.drop("a")
    assert (len(table), table.held_bytes) == (0, 0)


def test_what_a_commit_names_has_to_be_whole() -> None:
    table = StageTable(1000)
    table.add("a", BATCH, 0, place(10), 1)
    table.add("gap", BATCH, 1, place(20), 1)
    assert table.missing(BATCH, {"a": 1}) is None
    assert "expired" in (table.missing(BATCH, {"a": 1, "c": 1}) or "")
    assert "has 1 parts here, not 2" in (table.missing(BATCH, {"a": 2}) or "")
    assert "has 1 parts here, not 1" in (table.missing(BATCH, {"gap": 1}) or "")
    assert "is of batch 0" in (table.missing(("app", 1), {"a": 1}) or "")


def test_stages_go_with_their_batch_or_by_age() -> None:
    table = StageTable(1000)
    table.add("a", BATCH, 0, place(10), 1)
    table.add("b", BATCH, 0, place(20), 5)
    table.add("c", ("app", 1), 0, place(30), 3)
    assert table.unused_since(4) == ["a", "c"]
    table.drop_batch(BATCH)
    assert (len(table), table.held_bytes) == (1, 10)
    table.drop_batch(BATCH)
    assert [each.log_offset for each in table.all_places()] == [30]


def test_there_is_room_for_so_much_and_no_more() -> None:
    table = StageTable(25, max_stages=2, max_parts=3)
    assert table.refusal("a", 26) is not None
    table.add("a", BATCH, 0, place(0), 1)
    table.add("b", BATCH, 0, place(10), 1)
    assert "2 stages" in (table.refusal("c", 1) or "")
    assert table.refusal("a", 5) is None
    assert "bytes are staged" in (table.refusal("a", 6) or "")
    table.add("a", BATCH, 1, place(20, 1), 1)
    assert "3 parts" in (table.refusal("a", 1) or "")
    table.drop("a")
    assert table.refusal("c", 1) is None
