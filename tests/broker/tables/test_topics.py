"""Which topics a broker has."""

from __future__ import annotations

import pytest

from rocketpipe.broker.tables.topics import TopicsFile, TopicTable
from rocketpipe.model.names import AUTO_CREATE_TOPIC
from rocketpipe.model.topic import DataVersion, Perm, TopicSettings


def test_a_send_creates_a_topic_with_as_many_queues_as_both_sides_allow() -> None:
    table = TopicTable(default_topic_queues=8)
    small = table.create_for_send("small", like=AUTO_CREATE_TOPIC, queues=4, now_ms=1)
    large = table.create_for_send("large", like=AUTO_CREATE_TOPIC, queues=99, now_ms=1)
    none = table.create_for_send("none", like=AUTO_CREATE_TOPIC, queues=0, now_ms=1)
    assert small is not None
    assert large is not None
    assert none is not None
    assert (small.write_queues, large.write_queues, none.write_queues) == (4, 8, 1)
    assert not small.perm & Perm.INHERIT
    assert table.get("small") == small


def test_only_an_inheritable_topic_is_a_pattern_for_others() -> None:
    table = TopicTable(default_topic_queues=8)
    table.create_for_send("plain", like=AUTO_CREATE_TOPIC, queues=4, now_ms=1)
    assert table.create_for_send("new", like="plain", queues=4, now_ms=1) is None
    assert table.create_for_send("new", like="unknown", queues=4, now_ms=1) is None
    assert table.get("new") is None


def test_every_change_is_a_new_version_and_looking_is_none() -> None:
    table = TopicTable(default_topic_queues=8)
    before = table.version
    table.get("t")
    table.all()
    assert table.version == before
    table.create_retry_topic("%RETRY%g", now_ms=5)
    assert table.version.counter == before.counter + 1
    assert table.version.timestamp == 5
    table.create_retry_topic("%RETRY%g", now_ms=6)
    assert table.version.timestamp == 5


def test_a_copy_of_the_table_does_not_change_under_its_reader() -> None:
    table = TopicTable(default_topic_queues=8)
    copy = table.all()
    table.create_retry_topic("%RETRY%g", now_ms=5)
    assert "%RETRY%g" not in copy


def test_what_is_loaded_counts_and_the_rest_stays() -> None:
    table = TopicTable(default_topic_queues=8)
    saved = TopicsFile(
        version=DataVersion(counter=7, timestamp=9),
        topics={
            name: TopicSettings(name=name, read_queues=2, write_queues=2)
            for name in ("orders", AUTO_CREATE_TOPIC, "%RETRY%group+orders")
        },
    )
    table.load(saved)
    assert table.version == saved.version
    assert table.all() == saved.topics
    assert table.to_file() == saved


def test_a_name_that_no_topic_may_have_is_left_out_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = TopicTable(default_topic_queues=8)
    evil = ("../../etc/passwd", "a+b", "")
    table.load(TopicsFile(topics={name: TopicSettings(name=name) for name in evil}))
    assert table.all().keys() == {AUTO_CREATE_TOPIC}
    assert len(caplog.records) == len(evil)


def test_an_adopted_topic_has_the_queues_that_were_found_and_a_known_one_stays() -> None:
    table = TopicTable(default_topic_queues=8)
    table.adopt("found", 3, now_ms=5)
    found = table.get("found")
    assert found is not None
    assert (found.read_queues, found.write_queues) == (3, 3)
    before = table.version
    table.adopt("found", 9, now_ms=6)
    assert table.get("found") == found
    assert table.version == before
