"""Which broker serves which topic, as the brokers themselves have said.

A broker registers all its topics now and then, and a topic that is new or changed alone, in the
same words: so what it said last of a topic counts, and a topic left out is not gone. It is
forgotten when it says goodbye, when its connection ends, or when it has been silent for too long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rocketpipe.model.route import (
    LEADER_ID,
    BrokerAddresses,
    BrokerQueues,
    ClusterBrokers,
    TopicRoute,
)
from rocketpipe.model.topic import TopicSettings

EXPIRY_MS: Final = 120_000


@dataclass(frozen=True, slots=True)
class BrokerKey:
    """One broker process: several share a name, told apart by their ids."""

    cluster: str
    name: str
    broker_id: int


@dataclass(slots=True)
class _Registered:
    address: str
    topics: dict[str, TopicSettings]
    heard_ms: int


class RouteTable:
    """Brokers, their topics, and the routes that follow from both."""

    def __init__(self) -> None:
        self._brokers: dict[BrokerKey, _Registered] = {}

    def register(
        self, broker: BrokerKey, address: str, topics: Mapping[str, TopicSettings], now_ms: int
    ) -> None:
        """Take a broker's word for topics it serves; those it named before, it serves too."""
        for other, registered in list(self._brokers.items()):
            # The same process under a new id: its old self is gone.
            if registered.address == address and other != broker:
                del self._brokers[other]
        known = self._brokers.get(broker)
        # At another address it is another process, whose topics may be others.
        before = known.topics if known is not None and known.address == address else {}
        self._brokers[broker] = _Registered(address, {**before, **topics}, now_ms)

    def unregister(self, broker: BrokerKey) -> None:
        """Forget a broker; unknown ones are forgotten already."""
        self._brokers.pop(broker, None)

    def leader_address(self, broker_name: str) -> str | None:
        """Where the broker of that name that takes writes can be reached."""
        for key, registered in self._brokers.items():
            if key.name == broker_name and key.broker_id == LEADER_ID:
                return registered.address
        return None

    def expire(self, now_ms: int) -> list[BrokerKey]:
        """Forget the brokers that have been silent too long; returns who they were."""
        silent = [
            key
            for key, registered in self._brokers.items()
            if now_ms - registered.heard_ms > EXPIRY_MS
        ]
        for key in silent:
            del self._brokers[key]
        return silent

    def route(self, topic: str) -> TopicRoute | None:
        """Where a topic lives, or None when no broker serves it."""
        queues: dict[str, BrokerQueues] = {}
        for key, registered in self._brokers.items():
            settings = registered.topics.get(topic)
            if settings is None:
                continue
            # A leader's word about its topics counts more than a follower's copy.
            if key.name not in queues or key.broker_id == LEADER_ID:
                queues[key.name] = BrokerQueues(
                    broker_name=key.name,
                    read_queues=settings.read_queues,
                    write_queues=settings.write_queues,
                    perm=settings.perm,
                    topic_sys_flag=settings.sys_flag,
                )
        if not queues:
            return None
        return TopicRoute(
            queues=tuple(queues[name] for name in sorted(queues)),
            brokers=tuple(self._addresses(name) for name in sorted(queues)),
        )

    def everyone(self) -> ClusterBrokers:
        """Every cluster, the brokers in it, and where they are."""
        names = {key.name for key in self._brokers}
        clusters = {key.cluster for key in self._brokers}
        return ClusterBrokers(
            brokers={name: self._addresses(name) for name in sorted(names)},
            clusters={
                cluster: tuple(
                    sorted({key.name for key in self._brokers if key.cluster == cluster})
                )
                for cluster in sorted(clusters)
            },
        )

    def topics(self) -> list[str]:
        """Every topic that some broker serves."""
        return sorted({topic for broker in self._brokers.values() for topic in broker.topics})

    def _addresses(self, name: str) -> BrokerAddresses:
        sharing = {key: found for key, found in self._brokers.items() if key.name == name}
        return BrokerAddresses(
            cluster=next(iter(sharing)).cluster,
            broker_name=name,
            addresses={
                key.broker_id: found.address
                for key, found in sorted(sharing.items(), key=lambda item: item[0].broker_id)
            },
        )
