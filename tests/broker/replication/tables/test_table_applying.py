"""Records of the table log at a replica, also those that nobody thought of."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec
import pytest
from tests.broker.support.table_parts import HOST, Replica

from rocketpipe.model.names import TABLES_TOPIC
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.store.log.puts import Put


async def test_a_snapshot_without_one_of_its_parts_takes_nothing_away(tmp_path: Path) -> None:
    leader = Replica(tmp_path / "leader", most=4096)
    for number in range(2000):
        leader.tables.offsets.commit("g", f"t{number}", 0, QueueOffset(number))
    await leader.lead()
    (puts,) = leader.groups
    follower = Replica(tmp_path / "follower")
    follower.tables.offsets.commit("mine", "t", 0, QueueOffset(1))
    odd = Replica(tmp_path / "odd")
    odd.store.adopt_tail()
    odd.append([put for index, put in enumerate(puts) if index != 3])
    follower.follow(odd)
    follower.log.catch_up()
    assert follower.tables.offsets.committed("mine", "t", 0) == 1
    assert follower.tables.offsets.committed("g", "t1999", 0) == 1999


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b'{"do":"something newer"}',
        b'{"do":"tables","places":[["g"]]}',
        b'{"do":"tables","topics":[{"topicName":7}],"groups":[{"groupName":[]}]}',
        b'{"do":"tables","snapshot":[1]}',
        b"[" * 100_000,
    ],
)
async def test_a_record_that_cannot_be_read_is_passed_over_with_a_warning(
    body: bytes, leader: Replica, follower: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    leader.append([Put(TABLES_TOPIC, 0, body, b"", 0, 0, 0, HOST)])
    leader.tables.offsets.commit("g", "t", 0, QueueOffset(17))
    leader.tables.topics.ensure("t", queues=1, now_ms=1)
    await leader.log.settled()
    with caplog.at_level(logging.WARNING):
        follower.follow(leader)
        follower.log.catch_up()
    assert follower.state == leader.state
    warnings = [each for each in caplog.messages if "passed over" in each]
    assert warnings
    assert "next snapshot" in warnings[0]


async def test_fields_of_a_later_version_are_no_harm(leader: Replica, follower: Replica) -> None:
    body = msgspec.json.encode(
        {"do": "tables", "places": [["g", "t", [0, 5], []]], "new": {"x": 1}}
    )
    leader.append([Put(TABLES_TOPIC, 0, body, b"", 0, 0, 0, HOST)])
    follower.follow(leader)
    follower.log.catch_up()
    assert follower.tables.offsets.committed("g", "t", 0) == 5


async def test_queues_whose_messages_expired_go_on_where_they_were(
    tmp_path: Path, follower: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    leader = Replica(tmp_path / "leader")
    leader.store.begin_queue("spent", 3, QueueOffset(13))
    follower.store.begin_queue("known", 0, QueueOffset(4))
    leader.store.begin_queue("known", 0, QueueOffset(9))
    await leader.lead()
    record = b'{"do":"tables","spent":[["../odd",0,5],["more",0,6]]}'
    leader.append([Put(TABLES_TOPIC, 0, record, b"", 0, 0, 1, HOST)])
    follower.follow(leader)
    with caplog.at_level(logging.WARNING):
        follower.log.catch_up()
    ends = {name: follower.store.max_offset(name, number) for name, number in QUEUES}
    assert ends == {"spent": 13, "known": 4, "more": 6}
    assert "a queue that there cannot be" in caplog.text


QUEUES = (("spent", 3), ("known", 0), ("more", 0))


async def test_the_log_is_kept_as_the_leader_said_last(leader: Replica, follower: Replica) -> None:
    assert follower.kept_from is None
    for record in (b'{"do":"tables","first_offset":8192}', b'{"do":"tables","spent":[]}'):
        leader.append([Put(TABLES_TOPIC, 0, record, b"", 0, 0, 1, HOST)])
    follower.follow(leader)
    follower.log.catch_up()
    assert follower.kept_from == 8192
