"""Brokers and clusters, as NameServers know them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rocketpipe.client.admin.fleet import Fleet
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.requests.routes import AddWritePerm, WipeWritePerm
from rocketpipe.protocol.requests.topics import GetAllTopicConfig


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """The brokers that share one name: their addresses by id, of which 0 is the leader's."""

    name: str
    cluster: str
    addresses: Mapping[int, str]

    @property
    def leader(self) -> str | None:
        """The address that takes writes, if a leader is known."""
        return self.addresses.get(0)


class BrokerAdmin:
    """Lists brokers, and keeps producers away from one that is to be emptied."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def all(self, *, cluster: str | None = None) -> list[BrokerInfo]:
        """All brokers, or those of a cluster, in the order of their names.

        Raises:
            NoBroker: If there is no such cluster, or no broker at all.
            ConnectionLost: If no NameServer answers.
        """
        found = await self._fleet.brokers(cluster=cluster)
        return [
            BrokerInfo(name, each.cluster, dict(sorted(each.addresses.items())))
            for name, each in found.items()
        ]

    async def clusters(self) -> dict[str, list[str]]:
        """The names of the brokers of each cluster.

        Raises:
            ConnectionLost: If no NameServer answers.
        """
        known = await self._fleet.everyone()
        return {name: sorted(members) for name, members in sorted(known.clusters.items())}

    async def topics(self, broker: str) -> dict[str, TopicSettings]:
        """The settings of every topic that a broker has, its own too.

        Raises:
            NoBroker: If there is no such broker, or it has no leader.
            ConnectionLost: If it is out of reach.
        """
        leaders = await self._fleet.leaders(broker=broker)
        replies = await self._fleet.ask(leaders, GetAllTopicConfig())
        return dict(sorted(replies[broker].table.topics.items()))

    async def stop_writes(self, broker: str) -> dict[str, int]:
        """Keep producers away from a broker: they notice within half a minute.

        It says, for each NameServer, how many topics that concerned. A broker that registers
        anew with changed topics is written to again.

        Raises:
            NoBroker: If there is no such broker.
            RocketPipeError: If a NameServer does not answer: do it again when it does.
        """
        await self._fleet.brokers(broker=broker)
        request = WipeWritePerm(broker_name=broker)
        replies = await self._fleet.ask(self._fleet.name_servers, request)
        return {address: reply.wipe_topic_count for address, reply in replies.items()}

    async def allow_writes(self, broker: str) -> dict[str, int]:
        """Let producers come to a broker again; it says how many topics that concerned.

        Raises:
            NoBroker: If there is no such broker.
            RocketPipeError: If a NameServer does not answer: do it again when it does.
        """
        await self._fleet.brokers(broker=broker)
        request = AddWritePerm(broker_name=broker)
        replies = await self._fleet.ask(self._fleet.name_servers, request)
        return {address: reply.add_topic_count for address, reply in replies.items()}
