"""Which topics a broker has."""

from __future__ import annotations

import pytest

from rocketpipe.broker.tables.limits import TableFull, TableLimits
from rocketpipe.broker.tables.topics import TopicsFile, TopicTable
from rocketpipe.errors import InvalidName
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
    table.ensure("%RETRY%g", queues=1, now_ms=5)
    assert table.version.counter == before.counter + 1
    assert table.version.timestamp == 5
    table.ensure("%RETRY%g", queues=1, now_ms=6)
    assert table.version.timestamp == 5


def test_a_copy_of_the_table_does_not_change_under_its_reader() -> None:
    table = TopicTable(default_topic_queues=8)
    copy = table.all()
    table.ensure("%RETRY%g", queues=1, now_ms=5)
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


def test_a_broker_that_creates_no_topics_has_no_pattern_for_them_either() -> None:
    table = TopicTable(default_topic_queues=8, auto_create=False)
    assert table.get(AUTO_CREATE_TOPIC) is None
    # A table that was saved before has one, which does not count any more.
    pattern = TopicSettings(name=AUTO_CREATE_TOPIC, perm=7)
    table.load(TopicsFile(topics={AUTO_CREATE_TOPIC: pattern}))
    assert table.create_for_send("new", like=AUTO_CREATE_TOPIC, queues=4, now_ms=1) is None


def test_a_topic_that_is_needed_is_made_once_and_stays_as_it_is() -> None:
    table = TopicTable(default_topic_queues=8)
    made = table.ensure("%RETRY%g", queues=3, now_ms=5)
    assert (made.read_queues, made.write_queues, made.perm) == (3, 3, 6)
    assert table.ensure("%RETRY%g", queues=9, now_ms=6) == made
    assert table.ensure("none", queues=0, now_ms=6).write_queues == 1


def test_an_update_says_whether_it_changed_anything() -> None:
    table = TopicTable(default_topic_queues=8)
    wanted = TopicSettings(name="t", read_queues=4, write_queues=2)
    assert table.update(wanted, now_ms=5)
    before = table.version
    assert not table.update(wanted, now_ms=6)
    assert table.version == before
    assert table.update(TopicSettings(name="t", read_queues=8, write_queues=8), now_ms=7)
    assert table.version.timestamp == 7
    with pytest.raises(InvalidName):
        table.update(TopicSettings(name="../t"), now_ms=8)


def test_a_deleted_topic_is_gone_and_to_delete_it_again_is_no_change() -> None:
    table = TopicTable(default_topic_queues=8)
    table.ensure("t", queues=1, now_ms=5)
    assert table.delete("t", now_ms=6)
    assert table.get("t") is None
    assert table.version.timestamp == 6
    assert not table.delete("t", now_ms=7)
    assert table.version.timestamp == 6


def test_one_topic_too_many_is_refused_however_it_would_come() -> None:
    table = TopicTable(default_topic_queues=8, limits=TableLimits(topics=2))
    table.ensure("t", queues=1, now_ms=5)
    with pytest.raises(TableFull, match="2 topics"):
        table.ensure("u", queues=1, now_ms=5)
    with pytest.raises(TableFull, match="2 topics"):
        table.update(TopicSettings(name="u"), now_ms=5)
    with pytest.raises(TableFull, match="2 topics"):
        table.create_for_send("u", like=AUTO_CREATE_TOPIC, queues=1, now_ms=5)
    assert table.update(TopicSettings(name="t", read_queues=4), now_ms=5)
    table.delete("t", now_ms=6)
    assert table.ensure("u", queues=1, now_ms=5)


def test_the_brokers_own_topics_stay_as_an_operator_changed_them() -> None:
    table = TopicTable(default_topic_queues=8)
    changed = TopicSettings(name="DefaultCluster", read_queues=2, write_queues=2)
    table.load(TopicsFile(topics={"DefaultCluster": changed}))
    table.establish([TopicSettings(name="DefaultCluster"), TopicSettings(name="broker-a")], 5)
    assert table.get("DefaultCluster") == changed
    assert table.get("broker-a") == TopicSettings(name="broker-a")
    assert table.is_system("DefaultCluster")
    assert table.is_system("rmq_sys_anything")
    assert not table.is_system("orders")
    assert {"DefaultCluster", "broker-a", "TBW102", "SCHEDULE_TOPIC_XXXX"} <= set(
        table.system_topics()
    )


def test_a_deletion_is_kept_with_the_table_and_counts_for_what_was_before_it() -> None:
    table = TopicTable(default_topic_queues=8)
    for name in ("gone", "again", "going"):
        table.ensure(name, queues=1, now_ms=1)
    assert table.to_file().deleted is None
    before = table.version
    assert table.delete("gone", 2, log_end=100)
    assert not table.delete("gone", 3, log_end=200), "it was deleted before"
    table.delete("again", 2, log_end=100)
    table.ensure("again", queues=1, now_ms=3)
    table.begin_delete("going", 4)
    table.begin_delete("never there", 4)
    assert table.version != before
    loaded = TopicTable(default_topic_queues=8)
    loaded.load(table.to_file())
    assert loaded.was_deleted_since("gone", 99)
    assert not loaded.was_deleted_since("gone", 100)
    assert loaded.was_deleted_since("again", 99)
    assert not loaded.was_deleted_since("going", 0)
    assert loaded.deleted() == ["gone"]
    loaded.finish_deleting(300, now_ms=5)
    assert loaded.get("going") is None
    assert loaded.get("again") is not None
    assert loaded.was_deleted_since("going", 299)
    loaded.forget_deleted(log_first=100)
    assert loaded.to_file().deleted == {"going": 300}


def test_no_more_deletions_are_remembered_than_topics_may_be() -> None:
    table = TopicTable(default_topic_queues=8, limits=TableLimits(topics=5))
    for number in range(9):
        table.ensure(f"t{number}", queues=1, now_ms=1)
        table.delete(f"t{number}", 2, log_end=100)
    assert table.deleted() == ["t4", "t5", "t6", "t7", "t8"]
