"""The topics that every broker has."""

from __future__ import annotations

import tarfile
from pathlib import Path

from rocketpipe.broker.tables.system_topics import system_topics
from rocketpipe.broker.tables.topics import TopicsFile, TopicTable
from rocketpipe.model.names import STAGING_TOPIC
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
