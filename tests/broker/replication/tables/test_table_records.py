"""Tables as bodies of records."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from tests.broker.support.table_parts import Replica

from rocketpipe.broker.replication.tables.table_records import TableScribe, read_record
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.topic import TopicSettings


@pytest.fixture
def replica(tmp_path: Path) -> Replica:
    return Replica(tmp_path)


def test_the_text_of_a_record_stays_what_other_versions_read(replica: Replica) -> None:
    tables = replica.tables
    scribe = TableScribe(tables, replica.owners)
    for _ in scribe.snapshot(1):
        pass
    tables.offsets.commit("g", "t", 3, QueueOffset(17))
    tables.offsets.reset("g", "t", 4, QueueOffset(2), online=True)
    tables.delays.advance(2, QueueOffset(100))
    tables.groups.forbid("g", "t", 4, 7)
    replica.lock("10.0.0.7@1", 0)
    (body,) = scribe.changes().bodies
    said = msgspec.json.decode(body)
    (place,) = said.pop("places")
    assert (place[:2], sorted(place[2]), place[3]) == (["g", "t"], [2, 3, 4, 17], [4])
    version = {"counter": 1, "stateVersion": 0, "timestamp": 7}
    assert said == {
        "do": "tables",
        "groups_gone": ["g"],
        "forbidden": [["g", "", 0], ["g", "t", 4]],
        "groups_version": version,
        "locks": [["g", "t", "b", 0, "10.0.0.7@1"]],
        "delays": {"2": 100},
        "delays_version": {**version, "counter": 2, "timestamp": replica.clock.now_ms()},
        "offsets_version": {"counter": 0, "stateVersion": 0, "timestamp": 0},
    }
    assert scribe.changes().bodies == []


def test_bodies_are_as_long_as_they_may_be_and_a_long_entry_has_one_for_itself(
    replica: Replica,
) -> None:
    scribe = TableScribe(replica.tables, replica.owners, most=4096)
    scribe.watch()
    long = {f"name{number}": "x" * 100 for number in range(100)}
    replica.tables.topics.update(TopicSettings(name="long", attributes=long), 1)
    for number in range(300):
        replica.tables.offsets.commit("g", f"t{number}", 0, QueueOffset(number))
    changed = scribe.changes()
    assert sum(len(body) > 4096 for body in changed.bodies) == 1
    records = [read_record(body) for body in changed.bodies]
    assert sum(len(record.places) for record in records if record is not None) == 300
    changed.put_back()
    assert len(scribe.changes().bodies) == len(changed.bodies)


def test_a_name_that_could_not_be_read_back_is_left_out(replica: Replica) -> None:
    scribe = TableScribe(replica.tables, replica.owners)
    scribe.watch()
    replica.tables.offsets.commit("half\ud800", "t", 0, QueueOffset(1))
    replica.tables.offsets.commit("g@h", "t", 0, QueueOffset(1))
    replica.tables.offsets.commit("g", "t", 0, QueueOffset(1))
    (body,) = scribe.changes().bodies
    record = read_record(body)
    assert record is not None
    assert record.places == [("g", "t", [0, 1], [])]


def test_where_the_log_begins_is_said_when_it_changed_and_in_each_snapshot(
    replica: Replica,
) -> None:
    first = 4096
    scribe = TableScribe(replica.tables, replica.owners, first_offset=lambda: first)

    def said(bodies: Iterable[bytes]) -> list[int | None]:
        return [record.first_offset for body in bodies if (record := read_record(body))]

    assert said(body for bodies in scribe.snapshot(1) for body in bodies) == [4096]
    assert scribe.changes().bodies == []
    first = 8192
    changed = scribe.changes()
    assert said(changed.bodies) == [8192]
    assert scribe.changes().bodies == []
    changed.put_back()
    assert said(scribe.changes().bodies) == [8192]
    assert said([b'{"do":"tables","snapshot":[1,0,true]}']) == [None]
