"""What the records of the ledger do, one by one."""

from __future__ import annotations

from rocketpipe.broker.features.staging.book import MAX_LAPSED, StageBook
from rocketpipe.broker.features.staging.records import (
    Committed,
    Delivered,
    Dropped,
    Lapsed,
    Prepared,
    Settled,
)
from rocketpipe.broker.features.staging.stages import Place, StageTable
from rocketpipe.model.offsets import LogOffset, QueueOffset

BATCH = ("app", 0)


def place(at: int) -> Place:
    return Place(LogOffset(at), 10, QueueOffset(at // 10))


def book_with(*stages: str) -> StageBook:
    book = StageBook(StageTable(1000))
    for number, name in enumerate(stages):
        book.stages.add(name, BATCH, 0, place(10 * number), 1)
    return book


def test_a_commit_is_open_until_its_last_part_is_delivered() -> None:
    book = book_with("a", "b", "loser")
    book.apply(Committed(app="app", batch=0, stages={"a": 1, "b": 1}), LogOffset(30), 5)
    assert book.commits[BATCH].places == [place(0), place(10)]
    book.apply(Delivered(app="app", batch=0, parts=1), LogOffset(40), 5)
    assert book.commits[BATCH].moved == 1
    assert book.needed() == 0
    book.apply(Delivered(app="app", batch=0, parts=2), LogOffset(50), 5)
    assert not book.commits
    assert not len(book.stages)
    assert book.needed() == 30, "the ledger"
    book.apply(Delivered(app="app", batch=0, parts=2), LogOffset(60), 5)


def test_what_is_prepared_or_committed_does_not_expire() -> None:
    book = book_with("a", "b", "c")
    book.stages.add("d", ("app", 1), 0, place(90), 1)
    prepared = Prepared(app="app", batch=0, stages={"a": 1}, home="h", token="t")
    book.apply(prepared, LogOffset(30), 5)
    assert sorted(book.unused_since(2)) == ["b", "c", "d"]
    book.apply(Dropped(stages=("a",)), LogOffset(40), 5)
    assert not len(book.prepared)
    book.apply(Committed(app="app", batch=0, stages={"b": 1}), LogOffset(50), 5)
    assert book.unused_since(2) == ["d"]


def test_a_summary_says_all_of_the_ledger() -> None:
    book = book_with("a", "b")
    record = Committed(app="app", batch=0, stages={"a": 1, "b": 1}, plan="p", content="c")
    book.apply(record, LogOffset(30), 5)
    book.apply(Delivered(app="app", batch=0, parts=1), LogOffset(40), 5)
    book.apply(Settled(app="app", batch=0, plan="rest"), LogOffset(50), 5)
    book.apply(Lapsed(tokens=("t",)), LogOffset(60), 5)
    summary = book.summary(7, 9)
    assert summary.stages_from == 0
    other = book_with("a", "b")
    other.apply(summary, LogOffset(70), 100)
    assert other.ledger_from == 70
    assert other.commits[BATCH].moved == 1
    assert other.ledger.plan("app", 0) == "rest"
    assert "t" in other.lapsed
    assert other.summary(7, 100) == summary


def test_so_many_that_lapsed_are_remembered() -> None:
    book = book_with()
    tokens = tuple(str(number) for number in range(MAX_LAPSED + 5))
    book.apply(Lapsed(tokens=tokens), LogOffset(0), 1)
    assert list(book.lapsed) == list(tokens[5:])
