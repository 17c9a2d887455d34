"""What waits for another broker's decision."""

from __future__ import annotations

import pytest

from rocketpipe.broker.features.staging.prepared import Preparation, PreparedTable
from rocketpipe.errors import RequestRejected

BATCH = ("app", 0)


def test_several_may_have_prepared_a_batch() -> None:
    table = PreparedTable()
    first = Preparation("t1", {"a": 1}, "home", 5)
    second = Preparation("t2", {"b": 1}, "home", 6)
    table.add(BATCH, first)
    table.add(BATCH, Preparation("t1", {"x": 1}, "other", 7))  # the same again changes nothing
    table.add(BATCH, second)
    assert table.of(BATCH) == (first, second)
    assert (len(table), table.batches()) == (1, (BATCH,))
    assert table.has(BATCH, "t2")
    assert not table.has(("app", 1), "t2")
    assert sorted(table.stages()) == ["a", "b"]


def test_they_go_with_their_stages_or_their_batch() -> None:
    table = PreparedTable()
    table.add(BATCH, Preparation("t1", {"a": 1, "b": 1}, "home", 5))
    table.add(BATCH, Preparation("t2", {"c": 1}, "home", 5))
    table.add(("app", 1), Preparation("t3", {"d": 1}, "home", 5))
    table.without(["b", "z"])
    assert [each.token for each in table.of(BATCH)] == ["t2"]
    table.without(["c"])
    assert table.batches() == (("app", 1),)
    table.drop(("app", 1))
    table.drop(("app", 1))
    assert not len(table)


def test_what_is_prepared_again_and_again_is_bounded() -> None:
    table = PreparedTable(max_names=3)
    for token in ("t1", "t2", "t2"):
        table.check_room(1)
        table.add(BATCH, Preparation(token, {"a": 1}, "home", 5))
    table.add(("app", 1), Preparation("t3", {"b": 1}, "home", 5))
    with pytest.raises(RequestRejected, match="3 stages are prepared"):
        table.check_room(1)
    table.without(["b"])
    table.check_room(1)
    table.drop(BATCH)
    table.check_room(3)
