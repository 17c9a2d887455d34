"""Where a topic lives: its queues, the brokers that hold them, and their addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from rocketpipe.model.body import Body, Int32, Int64
from rocketpipe.model.topic import MAX_QUEUES, Perm, QueueCount

#: The broker id of the one that takes writes; followers count from 1.
LEADER_ID: Final = 0


class MessageQueue(Body, frozen=True, kw_only=True, order=True, cache_hash=True):
    """One queue of a topic on one broker. It sorts as Java's does: topic, broker, number."""

    topic: str
    broker_name: str
    queue_id: Int32

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"


class BrokerAddresses(Body, frozen=True, kw_only=True):
    """The brokers that share one name: a leader (id 0) and its followers."""

    cluster: str
    broker_name: str
    addresses: dict[Int64, str] = msgspec.field(name="brokerAddrs")
    zone_name: str | None = None
    enable_acting_master: bool = False

    @property
    def leader(self) -> str | None:
        """The address that takes writes, if a leader is known."""
        return self.addresses.get(LEADER_ID)

    @property
    def readable(self) -> str | None:
        """The leader's address, or else that of the follower with the smallest id."""
        if not self.addresses:
            return None
        return self.addresses[min(self.addresses)]


class BrokerQueues(Body, frozen=True, kw_only=True):
    """How many queues of a topic the brokers of one name hold, and what they allow."""

    broker_name: str
    read_queues: QueueCount = msgspec.field(name="readQueueNums")
    write_queues: QueueCount = msgspec.field(name="writeQueueNums")
    perm: Int32
    topic_sys_flag: Int32 = 0


class QueueMapping(Body, frozen=True, kw_only=True):
    """Which queues of a static topic one broker holds: global number to its own."""

    topic: str | None = None
    scope: str = "__global__"
    total_queues: Int32 = 0
    broker_name: str | None = msgspec.field(name="bname", default=None)
    epoch: Int64 = 0
    dirty: bool = False
    current_ids: dict[Int32, Int32] = msgspec.field(name="currIdMap", default_factory=dict)


class TopicRoute(Body, frozen=True, kw_only=True):
    """What a NameServer knows about one topic."""

    queues: tuple[BrokerQueues, ...] = msgspec.field(name="queueDatas", default=())
    brokers: tuple[BrokerAddresses, ...] = msgspec.field(name="brokerDatas", default=())
    filter_servers: dict[str, tuple[str, ...]] = msgspec.field(
        name="filterServerTable", default_factory=dict
    )
    #: ``broker-a:4;broker-b:4`` for a topic that is ordered across brokers.
    order_conf: str | None = msgspec.field(name="orderTopicConf", default=None)
    mapping_by_broker: dict[str, QueueMapping] | None = msgspec.field(
        name="topicQueueMappingByBroker", default=None
    )

    def broker(self, name: str) -> BrokerAddresses | None:
        """The addresses of one broker, if the route names it."""
        return next((broker for broker in self.brokers if broker.broker_name == name), None)

    def writable_queues(self, topic: str) -> list[MessageQueue]:
        """Every queue that may be written now, in order: its broker has a leader."""
        led = {broker.broker_name for broker in self.brokers if broker.leader is not None}
        if self.order_conf:
            return list(_ordered_queues(topic, self.order_conf))
        return [
            MessageQueue(topic=topic, broker_name=held.broker_name, queue_id=queue_id)
            for held in sorted(self.queues, key=_broker_name)
            if held.perm & Perm.WRITE and held.broker_name in led
            for queue_id in range(held.write_queues)
        ]

    def readable_queues(self, topic: str) -> list[MessageQueue]:
        """Every queue that may be read, in order, whoever leads its broker."""
        return [
            MessageQueue(topic=topic, broker_name=held.broker_name, queue_id=queue_id)
            for held in sorted(self.queues, key=_broker_name)
            if held.perm & Perm.READ
            for queue_id in range(held.read_queues)
        ]


class ClusterBrokers(Body, frozen=True, kw_only=True):
    """Every cluster and broker that a NameServer knows."""

    brokers: dict[str, BrokerAddresses] = msgspec.field(
        name="brokerAddrTable", default_factory=dict
    )
    clusters: dict[str, tuple[str, ...]] = msgspec.field(
        name="clusterAddrTable", default_factory=dict
    )

    def members(self, cluster: str) -> Mapping[str, BrokerAddresses]:
        """The brokers of one cluster by name."""
        names = self.clusters.get(cluster, ())
        return {name: self.brokers[name] for name in names if name in self.brokers}


def _broker_name(held: BrokerQueues) -> str:
    return held.broker_name


def _ordered_queues(topic: str, conf: str) -> Iterator[MessageQueue]:
    for entry in conf.split(";"):
        name, colon, count = entry.partition(":")
        # An operator writes this text by hand: what cannot be read names no queue.
        if not colon or not (count.isascii() and count.isdigit()) or len(count) > 5:
            continue
        for queue_id in range(min(int(count), MAX_QUEUES)):
            yield MessageQueue(topic=topic, broker_name=name, queue_id=queue_id)
