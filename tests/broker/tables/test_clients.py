"""Who is connected, and for which groups."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import pytest

from rocketpipe.broker.tables.clients import SILENT_MS, ClientTable
from rocketpipe.broker.tables.consumer_group import Client, Consuming
from rocketpipe.broker.tables.limits import TableFull, TableLimits
from rocketpipe.model.subscription import Subscription


def client(connection: Hashable, client_id: str = "client") -> Client:
    return Client(connection=connection, client_id=client_id)


def wants(*topics: str) -> Consuming:
    return Consuming(subscriptions=tuple(Subscription(topic=topic) for topic in topics))


def test_joining_again_is_nothing_new() -> None:
    table = ClientTable()
    assert table.join("g", client(1), wants("t"), 0)
    before = table.changes
    assert not table.join("g", client(1), wants("t"), 5)
    assert table.changes == before
    assert table.members("g") == ["client"]


def test_every_change_is_counted() -> None:
    table = ClientTable()
    steps: list[Callable[[], object]] = [
        lambda: table.join("g", client(1), wants("t"), 0),
        lambda: table.join("g", client(1), wants("t", "u"), 0),
        lambda: table.join("g", client(2), wants("t", "u"), 0),
        lambda: table.leave("g", 2),
        lambda: table.disconnect(1),
    ]
    for step in steps:
        before = table.changes
        step()
        assert table.changes > before


def test_a_lost_connection_leaves_all_its_groups() -> None:
    table = ClientTable()
    table.join("g", client(1, "b"), wants("t"), 0)
    table.join("g", client(2, "a"), wants("t"), 0)
    table.join("h", client(1, "b"), wants("t"), 0)
    table.produce("p", client(1, "b"), 0)
    assert table.members("g") == ["a", "b"]
    assert table.disconnect(1) == ["g", "h"]
    assert table.members("g") == ["a"]
    assert table.connections("g") == [2]
    assert table.members("h") == []
    assert table.consumer_groups() == ["g"]
    assert table.producers("p") == []
    assert table.disconnect(1) == []


def test_leaving_a_group_one_is_not_in_changes_nothing() -> None:
    table = ClientTable()
    table.join("g", client(1), wants("t"), 0)
    assert not table.leave("g", 2)
    assert not table.leave("unknown", 1)
    assert table.leave("g", 1)
    assert table.consumer_group("g") is None
    assert table.connections("g") == []


def test_a_group_is_known_while_it_has_a_member_and_tells_what_it_wants() -> None:
    table = ClientTable()
    assert table.consumer_group("g") is None
    table.join("g", client(1), wants("t"), 0)
    group = table.consumer_group("g")
    assert group is not None
    assert group.subscription("t") == Subscription(topic="t")
    assert table.mismatches("g") == {}
    table.join("g", client(2, "other"), wants("u"), 0)
    assert table.mismatches("g").keys() == {"client", "other"}
    assert table.mismatches("unknown") == {}


def test_a_fingerprint_is_known_of_the_client_that_gave_it() -> None:
    table = ClientTable()
    consuming = Consuming(subscriptions=(Subscription(topic="t"),), fingerprint=7)
    assert table.fingerprint("g", client(1)) is None
    table.join("g", client(1), consuming, 0)
    assert table.fingerprint("g", client(1)) == 7
    assert table.fingerprint("g", client(2)) is None
    assert table.fingerprint("g", client(1, "another")) is None
    assert table.size("g") == 1
    assert table.size("unknown") == 0


def test_whoever_is_silent_for_two_minutes_is_gone() -> None:
    table = ClientTable()
    table.join("g", client(1, "silent"), wants("t"), 0)
    table.join("g", client(2, "alive"), wants("t"), 0)
    table.produce("p", client(3, "producer"), 0)
    table.join("g", client(2, "alive"), wants("t"), 5)
    assert table.expire(SILENT_MS) == ([], [])
    groups, silent = table.expire(SILENT_MS + 1)
    assert groups == ["g"]
    assert [each.client_id for each in silent] == ["silent", "producer"]
    assert table.members("g") == ["alive"]
    assert table.producers("p") == []


def test_how_long_one_may_be_silent_can_be_set() -> None:
    table = ClientTable(silent_ms=10)
    table.join("g", client(1), wants("t"), 0)
    assert table.expire(11)[0] == ["g"]


def test_producers_are_found_by_group_and_by_id() -> None:
    table = ClientTable()
    table.produce("p", client(1, "b"), 0)
    table.produce("p", client(2, "a"), 0)
    table.produce("p", client(2, "a"), 5)
    assert [each.client_id for each in table.producers("p")] == ["a", "b"]
    assert table.producers_called("b") == [client(1, "b")]
    assert table.producers_called("c") == []
    assert table.stop_producing("p", 1)
    assert not table.stop_producing("p", 1)
    assert table.producers_called("b") == []


def test_one_too_many_is_refused_with_the_limit_and_what_was_there_stays() -> None:
    limits = TableLimits(
        online_groups=2, members=2, groups_of_client=2, subscriptions=2, expression=5
    )
    table = ClientTable(limits)
    table.join("g", client(1), wants("t"), 0)
    table.join("g", client(2), wants("t"), 0)
    table.join("h", client(1), wants("t"), 0)
    before = table.changes
    cases: list[tuple[str, Callable[[], object]]] = [
        ("2 members in group g", lambda: table.join("g", client(3), wants("t"), 0)),
        ("2 consumer groups", lambda: table.join("i", client(3), wants("t"), 0)),
        ("2 subscriptions", lambda: table.join("g", client(1), wants("t", "u", "v"), 0)),
        (
            "5 characters",
            lambda: table.join(
                "g",
                client(1),
                Consuming(subscriptions=(Subscription(topic="t", expression="A || B"),)),
                0,
            ),
        ),
    ]
    for reason, step in cases:
        with pytest.raises(TableFull, match=reason):
            step()
    assert table.changes == before
    assert not table.join("g", client(1), wants("t"), 0)


def test_one_connection_is_not_in_any_number_of_groups() -> None:
    table = ClientTable(TableLimits(groups_of_client=1))
    table.join("g", client(1), wants("t"), 0)
    table.produce("p", client(1), 0)
    with pytest.raises(TableFull, match="groups for one connection"):
        table.join("h", client(1), wants("t"), 0)
    with pytest.raises(TableFull, match="groups for one connection"):
        table.produce("q", client(1), 0)


def test_producers_are_bounded_too() -> None:
    table = ClientTable(TableLimits(online_groups=1, members=1))
    table.produce("p", client(1), 0)
    with pytest.raises(TableFull, match="1 members in group p"):
        table.produce("p", client(2), 0)
    with pytest.raises(TableFull, match="1 producer groups"):
        table.produce("q", client(2), 0)
