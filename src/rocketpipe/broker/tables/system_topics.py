"""The topics that every broker has from its first start, as RocketMQ's brokers do.

    TBW102                     the pattern of topics that sends create (see TopicTable)
    DefaultCluster, broker-a   named like cluster and broker: tools ask for their routes
    BenchmarkTest              for benchmarks, which choose among many queues
    SCHEDULE_TOPIC_XXXX        delayed messages until they are due, a queue a level
    the rest                   what brokers tell themselves

A topic of these names that an operator changed in its file stays as it was changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rocketpipe.broker.tables.topics import INHERITABLE
from rocketpipe.model.names import (
    BENCHMARK_TOPIC,
    HALF_OP_TOPIC,
    HALF_TOPIC,
    OFFSET_MOVED_TOPIC,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    STAGING_TOPIC,
    TABLES_TOPIC,
    TIMER_TOPIC,
    reply_topic,
    revive_topic,
    sync_member_topic,
)
from rocketpipe.model.topic import Perm, TopicSettings

BENCHMARK_QUEUES: Final = 1024
CLUSTER_QUEUES: Final = 16
REVIVE_QUEUES: Final = 8
SCHEDULE_QUEUES: Final = 18

_READ_WRITE: Final = int(Perm.READ | Perm.WRITE)


def system_topics(
    cluster: str, broker: str, *, trace_topic: str | None = None, replicated: bool = False
) -> Iterator[TopicSettings]:
    """Give the settings of a broker's own topics; ``trace_topic`` is one if it is named.

    A broker that is ``replicated`` has one for its tables.
    """
    yield _topic(SELF_TEST_TOPIC, 1)
    yield _topic(BENCHMARK_TOPIC, BENCHMARK_QUEUES)
    yield _topic(cluster, CLUSTER_QUEUES, INHERITABLE)
    yield _topic(broker, 1, INHERITABLE)
    yield _topic(OFFSET_MOVED_TOPIC, 1)
    yield _topic(SCHEDULE_TOPIC, SCHEDULE_QUEUES)
    if trace_topic is not None:
        yield _topic(trace_topic, 1)
    yield _topic(reply_topic(cluster), 1)
    yield _topic(revive_topic(cluster), REVIVE_QUEUES)
    yield _topic(sync_member_topic(broker), 1, int(Perm.INHERIT))
    yield _topic(HALF_TOPIC, 1)
    yield _topic(HALF_OP_TOPIC, 1)
    yield _topic(TIMER_TOPIC, 1)
    # Nobody reads or writes it but the broker itself.
    yield _topic(STAGING_TOPIC, 2, int(Perm.INHERIT))
    if replicated:
        yield _topic(TABLES_TOPIC, 1, int(Perm.INHERIT))


def _topic(name: str, queues: int, perm: int = _READ_WRITE) -> TopicSettings:
    return TopicSettings(name=name, read_queues=queues, write_queues=queues, perm=perm)
