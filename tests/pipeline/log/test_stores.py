"""Which stores a path has."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.pipeline.log.directory import LogNotFound
from rocketpipe.pipeline.log.stores import ends_when_left, store_of, stores_at
from rocketpipe.store import roster, set_aside
from rocketpipe.store.layout import StoreLayout


def made(data: Path, *, taken: bool = True) -> None:
    known = roster.begun("b", taken=taken).grown(2)
    known.save(data)
    for member in known.brokers:
        StoreLayout(member.root(data)).commit_log.mkdir(parents=True)


def test_a_store_of_one_is_called_as_it_is_said(tmp_path: Path) -> None:
    assert stores_at(tmp_path) == {"broker-a": tmp_path}
    assert stores_at(tmp_path, "orders") == {"orders": tmp_path}
    assert store_of(tmp_path, "orders", "as it was") == tmp_path


def test_stores_of_several_are_called_as_their_brokers(tmp_path: Path) -> None:
    made(tmp_path)
    assert stores_at(tmp_path) == {"b": tmp_path, "b-1": tmp_path / "b-1"}
    assert stores_at(tmp_path, "b-1") == {"b-1": tmp_path / "b-1"}
    assert stores_at(tmp_path / "b-1") == {"b-1": tmp_path / "b-1"}
    assert store_of(tmp_path, None, "b-1") == tmp_path / "b-1"
    with pytest.raises(LogNotFound, match=r"has no broker 'c' \(it has b, b-1\)"):
        stores_at(tmp_path, "c")


def test_one_that_has_stored_nothing_is_passed_over(tmp_path: Path) -> None:
    made(tmp_path)
    StoreLayout(tmp_path / "b-1").commit_log.rmdir()
    assert stores_at(tmp_path) == {"b": tmp_path}


def test_one_that_has_left_is_read_where_it_was_set_aside(tmp_path: Path) -> None:
    made(tmp_path, taken=False)
    set_aside.save_ends(tmp_path, "b-1", {"orders": {0: 7}})
    known = roster.load(tmp_path)
    assert known is not None
    known.with_leaving("b-1", delete=False).save(tmp_path)
    set_aside.finish_leaving(tmp_path)
    assert stores_at(tmp_path) == {"b-0": tmp_path / "b-0"}
    assert store_of(tmp_path, None, "b-1") == tmp_path / "drained" / "b-1"
    assert ends_when_left(tmp_path, "b-1") == {"orders": {0: 7}}
    assert ends_when_left(tmp_path, "b-0") is None
    with pytest.raises(LogNotFound, match="has no broker 'b-9' any more"):
        store_of(tmp_path, None, "b-9")


def test_a_damaged_roster_is_named(tmp_path: Path) -> None:
    (tmp_path / roster.FILE_NAME).write_text("{")
    with pytest.raises(LogNotFound, match=r"brokers\.json"):
        stores_at(tmp_path)
