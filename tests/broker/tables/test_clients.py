"""Who is in which group."""

from __future__ import annotations

from rocketpipe.broker.tables.clients import ClientTable


def test_joining_again_is_nothing_new() -> None:
    table = ClientTable()
    assert table.join("g", "connection", "client")
    assert not table.join("g", "connection", "client")
    assert table.members("g") == ["client"]


def test_a_lost_connection_leaves_all_its_groups() -> None:
    table = ClientTable()
    table.join("g", 1, "b")
    table.join("g", 2, "a")
    table.join("h", 1, "b")
    assert table.members("g") == ["a", "b"]
    assert sorted(table.disconnect(1)) == ["g", "h"]
    assert table.members("g") == ["a"]
    assert table.connections("g") == [2]
    assert table.members("h") == []


def test_leaving_a_group_one_is_not_in_changes_nothing() -> None:
    table = ClientTable()
    table.join("g", 1, "a")
    assert not table.leave("g", 2)
    assert not table.leave("unknown", 1)
    assert table.leave("g", 1)
    assert table.connections("g") == []
