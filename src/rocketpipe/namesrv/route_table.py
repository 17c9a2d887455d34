"""Which broker serves which topic, as the brokers themselves have said.

A broker registers all its topics now and then, and one that is new or changed alone: so what it
said last of a topic counts, and a topic left out is not gone. What counts is what the leader (id 0)
says; where there is none, what the follower with the smallest id says, if it is new enough to know
that leaders can be stood in for. A broker is forgotten when it says goodbye, when its connection
ends, or when it has been silent for too long; its topics go with the last broker of its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rocketpipe.errors import InvalidName, RocketPipeError
from rocketpipe.model import names
from rocketpipe.model.route import (
    LEADER_ID,
    BrokerAddresses,
    BrokerQueues,
    ClusterBrokers,
    QueueMapping,
    TopicRoute,
)
from rocketpipe.model.topic import DataVersion, Perm, TopicSettings
from rocketpipe.namesrv.config import LiveSettings
from rocketpipe.namesrv.queue_table import QueueTable

_SYNC_TOPICS: Final = names.sync_member_topic("")


class RegistrationRefused(RocketPipeError):
    """A registration that the table cannot take; nothing of it was taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What a broker says of itself when it registers."""

    cluster: str
    name: str
    broker_id: int
    address: str
    ha_address: str = ""
    zone: str | None = None
    #: Whether a follower may stand in for the leader; None from a broker that cannot know.
    acting_leader: bool | None = None
    version: DataVersion = field(default_factory=DataVersion)
    topics: Mapping[str, TopicSettings] = field(default_factory=dict)
    mappings: Mapping[str, QueueMapping] = field(default_factory=dict)
    filter_servers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One broker process that is registered."""

    cluster: str
    name: str
    broker_id: int
    address: str
    ha_address: str
    version: DataVersion
    filter_servers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """What came of a registration."""

    #: Whether the broker is in the table now: an older one does not push out a newer.
    taken: bool
    #: Whether it was not there before, or not at this address.
    fresh: bool = False
    #: Other processes that it takes the place of.
    displaced: tuple[Member, ...] = ()
    #: Topics whose names no topic may have; named once for each version of the broker's table.
    left_out: tuple[str, ...] = ()
    leader: Member | None = None
    #: Whether it now has the smallest id of its name, where another had it.
    smallest_changed: bool = False


@dataclass(slots=True)
class _Group:
    """The brokers that share one name."""

    cluster: str
    zone: str | None = None
    acting: bool = False
    members: dict[int, Member] = field(default_factory=dict)


class RouteTable:
    """Brokers, their topics, and the routes that follow from both."""

    def __init__(self, settings: LiveSettings) -> None:
        self._settings = settings
        self._members: dict[str, Member] = {}
        self._groups: dict[str, _Group] = {}
        self._queues = QueueTable()

    # Brokers come and go

    def register(self, told: Announcement) -> Registered:
        """Take a broker's word for what it is and has.

        Raises:
            RegistrationRefused: If it is new and names a single topic, if its name is taken by
                another cluster, or if there would be more of something than is kept.
        """
        group = self._groups.get(told.name)
        holder = group.members.get(told.broker_id) if group is not None else None
        fresh = holder is None or holder.address != told.address
        self._check_cluster(told, group)
        displaced: list[Member] = []
        before = self._members.get(told.address)
        if before is not None and _identity(before) != _identity(told):
            displaced.append(before)  # the same process under another name or id
        if holder is not None and fresh:
            if holder.version.state_version > told.version.state_version:
                self._remove(displaced)
                return Registered(taken=False, displaced=tuple(displaced))
            displaced.append(holder)
        if fresh and len(told.topics) == 1:
            raise RegistrationRefused(
                "register broker failed: a broker that is not known yet has to register all its "
                "topics before it can register one"
            )
        self._check_room(told)

        smallest = min(group.members) if group is not None else None
        self._remove(displaced, changed_id=told)
        group = self._groups.setdefault(told.name, _Group(told.cluster))
        group.zone = told.zone
        group.acting = bool(told.acting_leader)
        member = Member(
            cluster=told.cluster,
            name=told.name,
            broker_id=told.broker_id,
            address=told.address,
            ha_address=told.ha_address,
            version=told.version,
            filter_servers=told.filter_servers,
        )
        group.members[told.broker_id] = self._members[told.address] = member
        changed = fresh or holder is None or holder.version != told.version
        left_out = self._take_topics(told, group, fresh=fresh, changed=changed)
        return Registered(
            taken=True,
            fresh=fresh,
            displaced=tuple(displaced),
            left_out=left_out,
            leader=group.members.get(LEADER_ID),
            smallest_changed=smallest is not None and told.broker_id < smallest,
        )

    def unregister(self, address: str) -> Member | None:
        """Forget the broker at an address; tells who it was."""
        return self._forget(address)

    def member(self, address: str) -> Member | None:
        """Who is registered at an address."""
        return self._members.get(address)

    def members(self, name: str) -> Mapping[int, str]:
        """The addresses of the brokers of one name, by their ids."""
        group = self._groups.get(name)
        return _addresses(group) if group is not None else {}

    def is_acting(self, name: str) -> bool:
        """Whether followers of that name stand in for their leader."""
        group = self._groups.get(name)
        return group is not None and group.acting

    # What operators change

    def wipe_write_perm(self, name: str) -> int:
        """Show the topics of a broker as not to be written; counts them."""
        return self._queues.show_perm(name, lambda perm: perm & ~Perm.WRITE)

    def add_write_perm(self, name: str) -> int:
        """Show the topics of a broker as to be read and written; counts them."""
        return self._queues.show_perm(name, lambda _: Perm.READ | Perm.WRITE)

    def delete_topic(self, topic: str, cluster: str | None = None) -> int:
        """Take a topic's route away, in one cluster or all; counts the broker names it was on.

        A broker that still has the topic brings it back with its next registration.
        """
        on = [
            name
            for name in self._queues.of(topic)
            if cluster is None or self._groups[name].cluster == cluster
        ]
        return sum(self._queues.drop(topic, name) for name in on)

    def add_topic(self, topic: str, queues: tuple[BrokerQueues, ...]) -> None:
        """Give a topic queues on brokers that are known.

        Raises:
            InvalidName: If no topic may have that name.
            RegistrationRefused: If a broker is not known, or there would be too many topics.
        """
        names.check_topic(topic)
        for held in queues:
            if held.broker_name not in self._groups:
                raise RegistrationRefused(
                    f"no broker named {held.broker_name[:80]!r} is registered: start it first"
                )
        self._check_topic_room(sum(h.broker_name not in self._queues.of(topic) for h in queues))
        for held in queues:
            self._queues.tell(topic, held)

    # What clients ask

    def route(self, topic: str) -> TopicRoute | None:
        """Where a topic lives, or None when no broker serves it."""
        held = self._queues.of(topic)
        if not held:
            return None
        on = sorted(held)
        mappings = {name: mapping for name in on if (mapping := held[name].mapping) is not None}
        stand_in = self._settings.now.acting_leaders and not topic.startswith(_SYNC_TOPICS)
        return TopicRoute(
            queues=tuple(held[name].shown for name in on),
            brokers=tuple(
                self._broker(name, stand_in=stand_in and not held[name].shown.perm & Perm.WRITE)
                for name in on
            ),
            filter_servers={
                member.address: member.filter_servers
                for name in on
                for member in self._groups[name].members.values()
                if member.filter_servers
            },
            mapping_by_broker=mappings or None,
        )

    def everyone(self) -> ClusterBrokers:
        """Every cluster, the brokers in it, and where they are."""
        clusters: dict[str, list[str]] = {}
        for name in sorted(self._groups):
            clusters.setdefault(self._groups[name].cluster, []).append(name)
        return ClusterBrokers(
            brokers={name: self._broker(name) for name in sorted(self._groups)},
            clusters={cluster: tuple(clusters[cluster]) for cluster in sorted(clusters)},
        )

    def topics(self) -> frozenset[str]:
        """Every topic that some broker serves."""
        return self._queues.topics()

    def topics_of_cluster(self, cluster: str) -> frozenset[str]:
        """Every topic that some broker of a cluster serves."""
        return frozenset[str]().union(
            *(
                self._queues.topics_on(name)
                for name, group in self._groups.items()
                if group.cluster == cluster
            )
        )

    def unit_topics(self, *, unit: bool | None, subscribed: bool | None) -> frozenset[str]:
        """Topics by whether they belong to a unit, and whether one subscribes; None is either."""
        return self._queues.flagged(
            lambda flag: (
                (unit is None or bool(flag & 1) == unit)
                and (subscribed is None or bool(flag & 2) == subscribed)
            )
        )

    def system_topics(self) -> tuple[frozenset[str], str | None]:
        """The names of clusters and brokers, which are topics too, and the address of a broker."""
        clusters = {group.cluster for group in self._groups.values()}
        return frozenset(clusters | set(self._groups)), next(iter(self._members), None)

    # Inside

    def _check_cluster(self, told: Announcement, group: _Group | None) -> None:
        if group is None or group.cluster == told.cluster:
            return
        if any(member.address != told.address for member in group.members.values()):
            raise RegistrationRefused(
                f"broker name {told.name} is taken in cluster {group.cluster}: "
                "give the broker another name"
            )

    def _check_room(self, told: Announcement) -> None:
        limit = self._settings.now.max_brokers
        if told.address not in self._members and len(self._members) >= limit:
            raise RegistrationRefused(
                f"this name server keeps {limit} brokers and knows as many: raise maxBrokers"
            )
        topics = {topic.name for topic in told.topics.values()}
        self._check_topic_room(self._queues.lacking(told.name, topics))

    def _check_topic_room(self, more: int) -> None:
        limit = self._settings.now.max_topic_routes
        if more and self._queues.count + more > limit:
            raise RegistrationRefused(
                f"this name server keeps {limit} topics of brokers, has {self._queues.count} "
                f"and would get {more} more: raise maxTopicRoutes"
            )

    def _forget(self, address: str, *, keep_topics: bool = False) -> Member | None:
        member = self._members.pop(address, None)
        if member is None:
            return None
        group = self._groups[member.name]
        assert group.members[member.broker_id] is member
        del group.members[member.broker_id]
        if not group.members:
            if not keep_topics:
                del self._groups[member.name]
                self._queues.drop_broker(member.name)
        elif group.acting and LEADER_ID not in group.members:
            self._queues.end_writing(member.name)
        return member

    def _remove(self, displaced: list[Member], changed_id: Announcement | None = None) -> None:
        for member in displaced:
            # Who leads no longer and stays as a follower does not take the topics along.
            same = changed_id is not None and (
                (member.cluster, member.name, member.address)
                == (changed_id.cluster, changed_id.name, changed_id.address)
            )
            self._forget(member.address, keep_topics=same)

    def _take_topics(
        self, told: Announcement, group: _Group, *, fresh: bool, changed: bool
    ) -> tuple[str, ...]:
        leads = told.broker_id == LEADER_ID
        stands_in = (
            not leads and told.acting_leader is not None and told.broker_id == min(group.members)
        )
        if not leads and not stands_in:
            return ()
        known = self._queues.topics_on(told.name)
        named = {topic.name for topic in told.topics.values()}
        if self._settings.now.delete_unnamed_topics and not told.mappings:
            for gone in known - named:
                self._queues.drop(gone, told.name)
        left_out = []
        for topic in told.topics.values():
            if topic.name in known:
                if not changed:
                    continue
            elif not _is_legal(topic.name, told):
                if changed:
                    left_out.append(topic.name)
                continue
            perm = topic.perm & ~Perm.WRITE if stands_in and group.acting else topic.perm
            queues = BrokerQueues(
                broker_name=told.name,
                read_queues=topic.read_queues,
                write_queues=topic.write_queues,
                perm=int(perm),
                topic_sys_flag=topic.sys_flag,
            )
            self._queues.tell(topic.name, queues, afresh=fresh)
        if changed:
            for name, mapping in told.mappings.items():
                held = self._queues.of(name).get(told.name)
                # A broker speaks of its own queues only.
                if held is not None and mapping.broker_name in (None, told.name):
                    held.mapping = mapping
        return tuple(left_out)

    def _broker(self, name: str, *, stand_in: bool = False) -> BrokerAddresses:
        group = self._groups[name]
        addresses = _addresses(group)
        if stand_in and group.acting and LEADER_ID not in addresses:
            smallest = min(addresses)
            addresses = {LEADER_ID: addresses.pop(smallest), **addresses}
        return BrokerAddresses(
            cluster=group.cluster,
            broker_name=name,
            addresses=addresses,
            zone_name=group.zone,
            enable_acting_master=group.acting,
        )


def _addresses(group: _Group) -> dict[int, str]:
    return {number: group.members[number].address for number in sorted(group.members)}


def _identity(broker: Member | Announcement) -> tuple[str, str, int]:
    return broker.cluster, broker.name, broker.broker_id


def _is_legal(topic: str, told: Announcement) -> bool:
    if topic in _own_topics(told):
        return True
    try:
        # Of all topics, those that popped messages are retried in may have a plus.
        names.check_topic(topic.replace("+", "", 1) if names.is_pop_retry_v2(topic) else topic)
    except InvalidName:
        return False
    return True


def _own_topics(told: Announcement) -> tuple[str, ...]:
    """Topics named after a broker or its cluster, which may have dots, as host names do."""
    return (
        told.name,
        told.cluster,
        names.reply_topic(told.cluster),
        names.revive_topic(told.cluster),
        names.sync_member_topic(told.name),
    )
