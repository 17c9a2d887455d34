"""Topics, as operators see them: at every broker of a cluster, and at the NameServers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from rocketpipe.client.admin.fleet import Fleet
from rocketpipe.client.name_servers import users_topics
from rocketpipe.errors import NoRoute, RequestRejected, RocketPipeError
from rocketpipe.model.names import AUTO_CREATE_TOPIC, check_topic
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue, TopicRoute
from rocketpipe.model.topic import MESSAGE_TYPE, MessageType, Perm, TopicSettings
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.routes import (
    DeleteTopicInNamesrv,
    GetAllTopics,
    GetSystemTopics,
    GetTopicsByCluster,
)
from rocketpipe.protocol.requests.topics import (
    DeleteTopic,
    GetTopicConfig,
    GetTopicStats,
    TopicStatsReply,
    UpdateAndCreateTopic,
)

DEFAULT_QUEUES: Final = 8


class TopicExists(RocketPipeError):
    """A topic that was to be created is there already."""

    def __init__(self, topic: str, brokers: list[str]) -> None:
        self.hint = "update it instead"
        super().__init__(f"topic {topic!r} exists at {', '.join(brokers)}: {self.hint}")
        self.topic = topic


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic: where it lives, and its settings at each broker."""

    name: str
    route: TopicRoute
    settings: Mapping[str, TopicSettings]


@dataclass(frozen=True, slots=True)
class QueueStats:
    """What one queue holds: offsets from ``least`` up to, but without, ``end``."""

    queue: MessageQueue
    least: QueueOffset
    end: QueueOffset
    #: When its last message was stored; None if it has none.
    last_stored_ms: int | None

    @property
    def messages(self) -> int:
        """How many offsets it spans."""
        return self.end - self.least


@dataclass(frozen=True, slots=True)
class TopicStats:
    """What the queues of a topic hold, in order."""

    topic: str
    queues: tuple[QueueStats, ...]

    @property
    def messages(self) -> int:
        """How many offsets they span in all."""
        return sum(queue.messages for queue in self.queues)


class TopicAdmin:
    """Creates, changes, deletes, lists and shows topics."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def create(
        self,
        topic: str,
        *,
        queues: int = DEFAULT_QUEUES,
        perm: Perm = Perm.READ | Perm.WRITE,
        ordered: bool = False,
        message_type: MessageType | None = None,
        attributes: Mapping[str, str] | None = None,
        cluster: str | None = None,
        broker: str | None = None,
        if_missing: bool = False,
    ) -> None:
        """Create a topic with so many queues at every broker, or at those of a cluster, or at one.

        When this returns, NameServers know it. With ``if_missing`` brokers that have it keep it as
        it is, and that is no error.

        Raises:
            InvalidName: If no topic may have this name.
            TopicExists: If one of these brokers has it.
            NoBroker: If there is no such cluster or broker.
            RequestRejected: If the broker refuses, for which it gives the reason.
            PartlyDone: If some brokers have it now, and others do not.
        """
        check_topic(topic)
        leaders = await self._fleet.leaders(cluster=cluster, broker=broker)
        known = await self._settings(topic, leaders)
        if known and not if_missing:
            raise TopicExists(topic, sorted(known))
        leaders = {name: at for name, at in leaders.items() if name not in known}
        change = {f"+{name}": value for name, value in (attributes or {}).items()}
        if message_type is not None:
            change[f"+{MESSAGE_TYPE}"] = message_type.value
        settings = TopicSettings(
            name=topic, read_queues=queues, write_queues=queues, perm=int(perm), ordered=ordered
        )
        await self._fleet.tell(leaders, _update(settings, change))
        self._fleet.session.routes.forget(topic)

    async def update(
        self,
        topic: str,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: Perm | None = None,
        ordered: bool | None = None,
        attributes: Mapping[str, str | None] | None = None,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Change settings where the topic is; what is not given stays. None removes an attribute.

        To have fewer queues, lower ``write_queues`` first, and ``read_queues`` when they are empty.

        Raises:
            NoRoute: If no broker of these has the topic.
            NoBroker: If there is no such cluster or broker.
            RequestRejected: If the broker refuses, for which it gives the reason.
            PartlyDone: If some brokers have changed it, and others have not.
        """
        leaders = await self._fleet.leaders(cluster=cluster, broker=broker)
        known = await self._settings(topic, leaders)
        if not known:
            raise self._no_route(topic)
        given = {
            "read_queues": read_queues,
            "write_queues": write_queues,
            "perm": None if perm is None else int(perm),
            "ordered": ordered,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        change = {
            f"-{name}" if value is None else f"+{name}": value or ""
            for name, value in (attributes or {}).items()
        }
        await self._fleet.carry_out(
            {
                name: (leaders[name], _update(msgspec.structs.replace(before, **changes), change))
                for name, before in known.items()
            }
        )
        self._fleet.session.routes.forget(topic)

    async def delete(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic with its messages and all groups' offsets in it; there is no way back.

        To delete what is not there is no error.

        Raises:
            InvalidName: If no topic may have this name.
            NoBroker: If there is no such cluster.
            RequestRejected: If it is one of the broker's own.
            PartlyDone: If some servers still have it.
        """
        check_topic(topic)
        leaders = await self._fleet.leaders(cluster=cluster)
        await self._fleet.tell(leaders, DeleteTopic(topic=topic))
        request = DeleteTopicInNamesrv(topic=topic, cluster_name=cluster)
        await self._fleet.tell(self._fleet.name_servers, request)
        self._fleet.session.routes.drop(topic)

    async def names(self, *, cluster: str | None = None, internal: bool = False) -> list[str]:
        """The names of users' topics, in order; with ``internal`` also retry, dead letter and own.

        Raises:
            ConnectionLost: If no NameServer answers.
            RequestRejected: If it is set not to list topics.
        """
        directory = self._fleet.session.directory
        if cluster is None:
            found = (await directory.ask(GetAllTopics())).names.topics
        else:
            found = (await directory.ask(GetTopicsByCluster(cluster=cluster))).names.topics
        if internal:
            return sorted(found)
        own = (await directory.ask(GetSystemTopics())).names.topics
        return users_topics(found, own)

    async def show(self, topic: str) -> TopicInfo:
        """Where a topic lives, and its settings at each broker.

        Raises:
            NoRoute: If no NameServer knows the topic.
            ConnectionLost: If a server is out of reach.
        """
        route = await self._fleet.session.routes.get(topic)
        leaders = _leaders(route)
        return TopicInfo(topic, route, await self._settings(topic, leaders))

    async def stats(self, topic: str) -> TopicStats:
        """What each queue of a topic holds.

        Raises:
            NoRoute: If no NameServer knows the topic.
            ConnectionLost: If a server is out of reach.
            RequestRejected: If a broker does not have the topic.
        """
        route = await self._fleet.session.routes.get(topic)
        replies = await self._fleet.ask(_leaders(route), GetTopicStats(topic=topic))
        return _stats(topic, replies.values())

    async def known_stats(self, topic: str) -> dict[str, TopicStats | RocketPipeError]:
        """The same by broker; one that does not answer stands with the reason.

        Raises:
            NoRoute: If no NameServer knows the topic.
            ConnectionLost: If no NameServer answers.
        """
        route = await self._fleet.session.routes.get(topic)
        leaders = {broker.broker_name: broker.leader for broker in route.brokers}
        replies = await self._fleet.attempt(leaders, GetTopicStats(topic=topic))
        return {
            name: reply if isinstance(reply, RocketPipeError) else _stats(topic, [reply])
            for name, reply in replies.items()
        }

    async def _settings(self, topic: str, leaders: Mapping[str, str]) -> dict[str, TopicSettings]:
        found: dict[str, TopicSettings] = {}
        for name, address in leaders.items():
            try:
                reply = await self._fleet.call(address, GetTopicConfig(topic=topic))
            except RequestRejected as error:
                if error.code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
            else:
                found[name] = reply.details
        return found

    def _no_route(self, topic: str) -> NoRoute:
        return NoRoute(topic, str(self._fleet.session.name_servers), "create it first")


def _update(settings: TopicSettings, change: Mapping[str, str]) -> UpdateAndCreateTopic:
    return UpdateAndCreateTopic(
        topic=settings.name,
        default_topic=AUTO_CREATE_TOPIC,
        read_queue_nums=settings.read_queues,
        write_queue_nums=settings.write_queues,
        perm=settings.perm,
        topic_filter_type=settings.filter_type,
        topic_sys_flag=settings.sys_flag,
        order=settings.ordered,
        attributes=",".join(
            name if name.startswith("-") else f"{name}={value}" for name, value in change.items()
        )
        or None,
    )


def _stats(topic: str, replies: Iterable[TopicStatsReply]) -> TopicStats:
    queues = [
        QueueStats(
            queue,
            QueueOffset(held.min_offset),
            QueueOffset(held.max_offset),
            # RocketMQ says 0 of a queue that is empty.
            held.last_update_timestamp or None,
        )
        for reply in replies
        for queue, held in reply.stats.queues.items()
    ]
    return TopicStats(topic, tuple(sorted(queues, key=lambda each: each.queue)))


def _leaders(route: TopicRoute) -> dict[str, str]:
    return {
        broker.broker_name: broker.leader for broker in route.brokers if broker.leader is not None
    }
