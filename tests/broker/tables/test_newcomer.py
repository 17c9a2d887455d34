"""What a broker finds that joins others."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.broker.tables.groups import GroupsFile
from rocketpipe.broker.tables.newcomer import give_tables
from rocketpipe.broker.tables.system_topics import system_topics
from rocketpipe.broker.tables.table_file import TableFile
from rocketpipe.broker.tables.topics import TopicsFile
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.topic import DataVersion, TopicSettings
from rocketpipe.protocol.requests.clients import RequestMode, RequestModes
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.snapshot import SnapshotDamaged

DISK = Disk()


def topic(name: str) -> TopicSettings:
    return TopicSettings(name=name, read_queues=4, write_queues=4, perm=6)


def given(tmp_path: Path) -> Path:
    give_tables(DISK, tmp_path / "a", tmp_path / "b", cluster="C", broker="broker-a")
    return tmp_path / "b"


def test_users_topics_are_taken_over_and_the_others_own_are_not(tmp_path: Path) -> None:
    users = ("orders", "%RETRY%g", "%DLQ%g")
    table = {each.name: each for each in system_topics("C", "broker-a")}
    table |= {name: topic(name) for name in users}
    saved = TopicsFile(version=DataVersion(counter=7), topics=table, deleted={"old": 99})
    TableFile(DISK, tmp_path / "a" / "topics.json", TopicsFile).save(saved)

    found = TableFile(DISK, given(tmp_path) / "topics.json", TopicsFile).load()

    assert found is not None
    assert found.topics == {name: topic(name) for name in users}
    assert not found.deleted


def test_groups_and_request_modes_are_taken_over(tmp_path: Path) -> None:
    groups = GroupsFile(groups={"g": GroupSettings(name="g")}, forbidden={"g": {"t": 4}})
    TableFile(DISK, tmp_path / "a" / "subscriptionGroup.json", GroupsFile).save(groups)
    mode = RequestMode(topic="t", consumer_group="g", mode="POP")
    modes = RequestModes(modes={"t": {"g": mode}})
    TableFile(DISK, tmp_path / "a" / "messageRequestMode.json", RequestModes).save(modes)

    there = given(tmp_path)

    assert TableFile(DISK, there / "subscriptionGroup.json", GroupsFile).load() == groups
    assert TableFile(DISK, there / "messageRequestMode.json", RequestModes).load() == modes


def test_where_there_is_nothing_nothing_is_made(tmp_path: Path) -> None:
    assert not given(tmp_path).exists()


def test_what_cannot_be_read_is_left_where_it_is_for_its_own_broker(tmp_path: Path) -> None:
    damaged = tmp_path / "a" / "topics.json"
    damaged.parent.mkdir()
    damaged.write_bytes(b"no JSON")

    with pytest.raises(SnapshotDamaged):
        given(tmp_path)

    assert [each.name for each in damaged.parent.iterdir()] == ["topics.json"]
