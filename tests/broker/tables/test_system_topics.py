"""The topics that every broker has."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from rocketpipe.broker.tables.system_topics import system_topics
from rocketpipe.broker.tables.topics import TopicsFile, TopicTable
from rocketpipe.errors import InvalidName
from rocketpipe.model.names import STAGING_TOPIC, TABLES_TOPIC, check_sendable
from rocketpipe.model.topic import Perm, TopicSettings
from rocketpipe.protocol import fastjson

GOLDEN = Path(__file__).parents[2] / "golden" / "5.5.0-stop.tar.xz"
USERS = {"orders", "log", "mixed_TOPIC-1", "%RETRY%golden_group", "%DLQ%golden_group"}


def apaches_topics() -> dict[str, TopicSettings]:
    with tarfile.open(GOLDEN) as archive:
        file = archive.extractfile("store/config/topics.json")
        assert file is not None
        topics = fastjson.read(file.read(), TopicsFile).topics
    # Its second store for transactions, which we do not have, keeps half messages in topics too.
    return {
        name: topic for name, topic in topics.items() if name not in USERS and "ROCKSDB" not in name
    }


def test_a_new_broker_has_the_topics_that_apaches_broker_5_5_0_had() -> None:
    table = TopicTable(default_topic_queues=8)
    table.establish(system_topics("DefaultCluster", "broker-a"), now_ms=5)
    assert all(table.is_system(name) for name in table.all())
    ours = table.get(STAGING_TOPIC)
    assert ours is not None
    assert not ours.perm & (Perm.READ | Perm.WRITE)
    table.delete(STAGING_TOPIC, now_ms=6)
    assert table.all() == apaches_topics()


def test_the_trace_topic_is_one_of_them_if_it_is_named() -> None:
    names = {topic.name for topic in system_topics("c", "b", trace_topic="RMQ_SYS_TRACE_TOPIC")}
    assert "RMQ_SYS_TRACE_TOPIC" in names


def test_a_replicated_broker_has_a_topic_that_nobody_else_reads_or_writes() -> None:
    assert TABLES_TOPIC not in {each.name for each in system_topics("c", "b")}
    (tables,) = (
        each for each in system_topics("c", "b", replicated=True) if each.name == TABLES_TOPIC
    )
    assert (tables.read_queues, tables.write_queues, tables.perm) == (1, 1, int(Perm.INHERIT))
    with pytest.raises(InvalidName, match="only brokers write"):
        check_sendable(TABLES_TOPIC)
    table = TopicTable(4)
    table.adopt(TABLES_TOPIC, 1, now_ms=1)  # by one whose replicas were done away with
    assert table.is_system(TABLES_TOPIC)
    assert table.all()[TABLES_TOPIC].perm == int(Perm.INHERIT)
