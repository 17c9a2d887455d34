"""Brokers and clusters, as NameServers know them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from rocketpipe.client.admin.fleet import Fleet
from rocketpipe.config.conf_file import read_conf
from rocketpipe.errors import RequestRejected, RocketPipeError
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.brokers import (
    CleanExpiredQueues,
    CleanUnusedTopics,
    DeleteExpiredLog,
    GetBrokerConfig,
    GetBrokerRuntimeInfo,
    StatsWindows,
    UpdateBrokerConfig,
    ViewBrokerStats,
)
from rocketpipe.protocol.requests.routes import AddWritePerm, WipeWritePerm
from rocketpipe.protocol.requests.topics import GetAllTopicConfig

ReplyT = TypeVar("ReplyT")


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


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """How much a broker has to do: messages a second, and what of it is not on its disk yet."""

    in_rate: float
    out_rate: float
    disk_percent: float
    unsynced: str

    @classmethod
    def of(cls, facts: Mapping[str, str]) -> BrokerLoad:
        """What `runtime` tells of it."""
        return cls(
            in_rate=_first(facts.get("putTps")),
            out_rate=_first(facts.get("getTransferredTps") or facts.get("getTransferedTps")),
            disk_percent=_first(facts.get("commitLogDiskRatio")) * 100,
            unsynced=facts.get("remainHowManyDataToFlush", ""),
        )


def _first(text: str | None) -> float:
    """The first of the rates that a broker tells at once: that of the last ten seconds."""
    try:
        return float((text or "").split(" ")[0])
    except ValueError:
        return 0.0


class BrokerAdmin:
    """Lists brokers, shows how they fare, changes their settings and has them clean up."""

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

    async def answering(self) -> list[str]:
        """The names of the brokers whose leader answers now, be it with a refusal.

        Raises:
            NoBroker: If NameServers know no broker at all.
            ConnectionLost: If no NameServer answers.
        """
        leaders = {each.name: each.leader for each in await self.all()}
        replies = await self._fleet.attempt(leaders, GetBrokerRuntimeInfo())
        return [
            name
            for name, reply in replies.items()
            if isinstance(reply, RequestRejected) or not isinstance(reply, RocketPipeError)
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

    async def runtime(self, broker: str) -> dict[str, str]:
        """How a broker fares, by RocketMQ's names: ``putTps``, ``commitLogDiskRatio`` and others.

        Raises:
            NoBroker: If there is no such broker, or it has no leader.
            ConnectionLost: If it is out of reach.
        """
        return dict(sorted((await self._ask(broker, GetBrokerRuntimeInfo())).values.table.items()))

    async def load(self, broker: str) -> BrokerLoad:
        """How much a broker has to do now.

        Raises:
            NoBroker: If there is no such broker, or it has no leader.
            ConnectionLost: If it is out of reach.
        """
        return BrokerLoad.of(await self.runtime(broker))

    async def stats(self, broker: str, name: str, key: str) -> StatsWindows:
        """What a broker counted in the last minute, hour and day.

        ``TOPIC_PUT_NUMS`` of a topic, ``GROUP_GET_NUMS`` of ``topic@group``, and others.

        Raises:
            NoBroker: If there is no such broker, or it has no leader.
            RequestRejected: If it counted nothing of that name.
        """
        request = ViewBrokerStats(stats_name=name, stats_key=key)
        return (await self._ask(broker, request)).stats

    async def settings(self, broker: str) -> dict[str, str]:
        """The settings in force at a broker; secrets are not shown.

        Raises:
            NoBroker: If there is no such broker, or it has no leader.
            ConnectionLost: If it is out of reach.
            ConfigError: If what it says is no list of settings.
        """
        return (await self.settings_and_live(broker))[0]

    async def settings_and_live(self, broker: str) -> tuple[dict[str, str], frozenset[str] | None]:
        """The same, and the keys that can be changed while it runs; None if it does not tell them.

        Raises: as `settings` does.
        """
        reply = await self._ask(broker, GetBrokerConfig())
        found = {entry.key: entry.value for entry in read_conf(reply.properties, broker)}
        live = reply.live_keys
        return found, None if live is None else frozenset(live.split(","))

    async def change(self, broker: str, settings: Mapping[str, str]) -> None:
        """Change settings of a broker while it runs, all or none of them.

        Raises:
            NoBroker: If there is no such broker, or it has no leader.
            ValueError: If a key or a value has a line break.
            RequestRejected: If one may not be changed, needs a restart, or cannot have that value.
        """
        for key, value in settings.items():
            if any(mark in key + value for mark in "\r\n") or not key.strip():
                raise ValueError(f"{key!r}={value!r} is no setting: it has to fit on a line")
        lines = "".join(f"{key}={_escaped(value)}\n" for key, value in settings.items())
        await self._ask(broker, UpdateBrokerConfig(properties=lines.encode()))

    async def clean_queues(self, *, cluster: str | None = None, broker: str | None = None) -> None:
        """Have brokers remove entries of queues whose messages are gone.

        Raises:
            NoBroker: If there is no such cluster or broker.
            PartlyDone: If some did, and others did not.
        """
        leaders = await self._fleet.leaders(cluster=cluster, broker=broker)
        await self._fleet.tell(leaders, CleanExpiredQueues())

    async def clean_topics(self, *, cluster: str | None = None, broker: str | None = None) -> None:
        """Have brokers remove queues of topics that are not there any more.

        Raises:
            NoBroker: If there is no such cluster or broker.
            PartlyDone: If some did, and others did not.
        """
        leaders = await self._fleet.leaders(cluster=cluster, broker=broker)
        await self._fleet.tell(leaders, CleanUnusedTopics())

    async def delete_expired(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """Have brokers remove files of the log that are past their time now, not at their hour.

        Raises:
            NoBroker: If there is no such cluster or broker.
            PartlyDone: If some did, and others did not.
        """
        leaders = await self._fleet.leaders(cluster=cluster, broker=broker)
        await self._fleet.tell(leaders, DeleteExpiredLog())

    async def _ask(self, broker: str, request: Request[ReplyT]) -> ReplyT:
        leaders = await self._fleet.leaders(broker=broker)
        return await self._fleet.call(leaders[broker], request)


def _escaped(value: str) -> str:
    # A backslash would begin an escape, as in Java's properties.
    return value.replace("\\", "\\\\")
