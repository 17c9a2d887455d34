"""A cluster, looked over as a client would meet it: every NameServer, broker, topic and group.

Servers are asked at the addresses that clients are told, so what is found here is what they find.
What is made of the answers stands in ``findings``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from rocketpipe.client.admin import findings, replica_findings
from rocketpipe.client.admin.access.servers import NoAccessControl
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.clients import ConnectedGroup, NotOnline
from rocketpipe.client.admin.findings import Finding, Level, Wants, ok, problem, unknown, warning
from rocketpipe.client.admin.fleet import Fleet, each
from rocketpipe.client.admin.replicas import ReplicaInfo
from rocketpipe.client.name_servers import is_broker
from rocketpipe.client.session import Session
from rocketpipe.config.conf_file import read_conf
from rocketpipe.errors import ConnectionLost, RocketPipeError
from rocketpipe.model.names import SELF_TEST_TOPIC
from rocketpipe.model.route import ClusterBrokers, TopicRoute
from rocketpipe.model.subscription import ConsumeType, MessageModel
from rocketpipe.model.topic import Perm
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.brokers import GetBrokerConfig, GetBrokerRuntimeInfo
from rocketpipe.protocol.requests.routes import (
    GetAllTopics,
    GetBrokerClusterInfo,
    GetRouteInfoByTopic,
)
from rocketpipe.remoting.caller import split_address

#: A group that is further behind has a large lag, unless the caller says otherwise.
MOST_LAG: Final = 10_000
#: So many topics, groups, members of a group and open transactions are looked at; then it says so.
MAX_TOPICS: Final = 1000
MAX_GROUPS: Final = 1000
MAX_MEMBERS: Final = 64
MAX_TRANSACTIONS: Final = 1000

ReplyT = TypeVar("ReplyT")


@dataclass(slots=True)
class _Seen:
    """What the first steps saw, for those that follow."""

    #: What each NameServer that answers knows.
    known: dict[str, ClusterBrokers] = field(default_factory=dict)
    topics: dict[str, frozenset[str]] = field(default_factory=dict)
    versions: dict[str, str | None] = field(default_factory=dict)
    #: Leaders that do not answer, by broker.
    silent: list[str] = field(default_factory=list)
    #: Brokers whose own settings keep writers away.
    shut: set[str] = field(default_factory=set)


class Diagnosis:
    """Looks a cluster over: ``async for finding in Diagnosis(session).findings()``."""

    def __init__(self, session: Session, *, most_lag: int = MOST_LAG) -> None:
        """Take an open session, and how far a group may be behind."""
        self._admin = Admin(session)
        self._fleet = Fleet(session)
        self._clock = session.clock
        self._most_lag = most_lag

    async def findings(self) -> AsyncIterator[Finding]:
        """Everything that was looked at, as it is found. What cannot be asked is unknown."""
        seen = _Seen()
        async for finding in self._name_servers(seen):
            yield finding
        if not seen.known:
            return
        async for finding in self._brokers(seen):
            yield finding
        async for finding in self._users():
            yield finding
        async for finding in self._topics(seen):
            yield finding
        if seen.silent:
            yield unknown(
                "groups",
                f"not looked at, since {', '.join(seen.silent)} does not answer",
                "have it answer first, then ask again",
            )
            return
        async for finding in self._groups():
            yield finding
        async for finding in self._left_behind():
            yield finding

    # NameServers

    async def _name_servers(self, seen: _Seen) -> AsyncIterator[Finding]:
        for address in self._fleet.name_servers:
            what = f"NameServer {address}"
            asked_ms = self._clock.monotonic_ms()
            try:
                reply = await self._fleet.call(address, GetBrokerClusterInfo())
            except RocketPipeError as error:
                remedy = "start it, or take it from the list of NameServers; is a firewall between?"
                names = await self._fleet.session.directory.names_of(address)
                if names is None:
                    reason = error.reason if isinstance(error, ConnectionLost) else str(error)
                    yield problem(what, reason, remedy)
                else:
                    yield problem(what, is_broker(names), "name the NameServers with -n instead")
                continue
            seen.known[address] = known = reply.cluster_brokers
            took_ms = self._clock.monotonic_ms() - asked_ms
            if known.brokers:
                count = findings.counted(len(known.brokers), "broker")
                yield ok(what, f"answers within {took_ms} ms, knows {count}")
            else:
                yield problem(what, "knows no broker", "start one, and give it this NameServer")
            listed = await self._attempt(address, GetAllTopics())
            if listed is not None:
                seen.topics[address] = frozenset(listed.names.topics)
        if len(self._fleet.name_servers) > 1:
            brokers = {
                address: {name: dict(each.addresses) for name, each in known.brokers.items()}
                for address, known in seen.known.items()
            }
            yield findings.agreement("brokers, to NameServers", brokers)
            yield findings.agreement("names of topics, to NameServers", seen.topics)

    # Brokers

    async def _brokers(self, seen: _Seen) -> AsyncIterator[Finding]:
        brokers: dict[str, dict[int, str]] = {}
        for known in seen.known.values():
            for name, one in known.brokers.items():
                brokers.setdefault(name, {}).update(one.addresses)
        for name, addresses in sorted(brokers.items()):
            if 0 not in addresses:
                seen.silent.append(name)
                yield problem(
                    f"broker {name}",
                    "has no leader",
                    "start it, or wait for one; rocketpipe cluster status says who is there",
                )
            for broker_id, address in sorted(addresses.items()):
                async for finding in self._broker(name, broker_id, address, seen):
                    yield finding
            async for finding in self._replicas(name, seen):
                yield finding
        if seen.versions:
            yield findings.versions(seen.versions)

    async def _replicas(self, name: str, seen: _Seen) -> AsyncIterator[Finding]:
        """The copies of a broker, at every address that any NameServer has for it."""
        rows: dict[str, ReplicaInfo] = {}
        for known in seen.known.values():
            group = known.brokers.get(name)
            if group is None or all(address in rows for address in group.addresses.values()):
                continue
            for one in await self._admin.replicas.of_group(group.cluster, name, group.addresses):
                rows[one.address] = one
        leaders = [one.address for one in rows.values() if one.role == "leader"]
        settings = await self._settings(leaders[0]) if leaders else None
        for finding in replica_findings.replicas(name, list(rows.values()), settings or {}):
            yield finding

    async def _broker(
        self, name: str, broker_id: int, address: str, seen: _Seen
    ) -> AsyncIterator[Finding]:
        label = name if broker_id == 0 else f"{name} (follower {broker_id})"
        what = f"broker {label} at {address}"
        began_ms, asked_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        try:
            reply = await self._fleet.call(address, GetBrokerRuntimeInfo())
        except RocketPipeError as error:
            if broker_id == 0:
                seen.silent.append(name)
            yield problem(
                what,
                f"does not answer: {error}",
                "is it running? Clients are told this address: if they cannot reach it, "
                "have the broker announce another (brokerIP1)",
            )
            return
        answered_ms = self._clock.now_ms()
        facts = reply.values.table
        seen.versions[label] = facts.get("brokerVersionDesc")
        version = facts.get("brokerVersionDesc", "version unknown")
        yield ok(what, f"answers within {self._clock.monotonic_ms() - began_ms} ms, {version}")
        if self._only_here(address):
            yield warning(
                what,
                "is told to clients as an address of their own machine",
                "have the broker announce one that others reach (brokerIP1)",
            )
        settings = await self._settings(address)
        yield findings.disk(label, facts, settings or {})
        yield findings.clock_skew(label, facts, asked_ms, answered_ms)
        yield findings.dispatch(label, facts)
        if "damagedRecords" in facts:  # RocketMQ's own brokers do not tell
            yield findings.damage(label, facts)
        if broker_id == 0:
            yield findings.delayed(label, facts)
            permission = findings.broker_permission(name, settings)
            if permission.level is Level.WARNING:
                seen.shut.add(name)
            yield permission

    async def _settings(self, address: str) -> dict[str, str] | None:
        reply = await self._attempt(address, GetBrokerConfig())
        if reply is None:
            return None
        try:
            return {entry.key: entry.value for entry in read_conf(reply.properties, address)}
        except RocketPipeError:
            return None

    def _only_here(self, address: str) -> bool:
        """Whether a broker is at this machine only, to which some NameServer does not belong."""
        return _is_local(address) and not all(map(_is_local, self._fleet.name_servers))

    # Users

    async def _users(self) -> AsyncIterator[Finding]:
        try:
            known, without = await self._admin.users.all_with_servers()
        except NoAccessControl:
            return  # whoever serves says so at the start
        except RocketPipeError as error:
            yield unknown("users", str(error))
            return
        for finding in findings.users(
            [one.name for one in known if one.is_super and one.is_enabled],
            {one.name: one.missing for one in known if one.missing},
            without,
        ):
            yield finding

    # Topics

    async def _topics(self, seen: _Seen) -> AsyncIterator[Finding]:
        try:
            names = await self._admin.topics.names()
        except RocketPipeError as error:
            yield unknown("topics", str(error))
            return
        if len(names) > MAX_TOPICS:
            yield unknown("topics", f"of {len(names)}, only the first {MAX_TOPICS} were looked at")
        perms: dict[str, dict[str, int]] = {}
        apart: list[str] = []
        routes = await each(names[:MAX_TOPICS], lambda name: self._routes(name, seen.known))
        for name, by_server in routes.items():
            for route in by_server.values():
                perms.setdefault(name, {}).update(
                    (held.broker_name, held.perm) for held in route.queues
                )
            if len(set(map(_shape, by_server.values()))) > 1:
                apart.append(name)
        closed = await self._closed(seen)
        for name in sorted(closed - seen.shut):
            yield findings.wiped(name)
        for finding in findings.topic_permissions(perms, closed):
            yield finding
        for finding in _apart(apart, len(perms), len(seen.known)):
            yield finding

    async def _closed(self, seen: _Seen) -> set[str]:
        """Brokers of which no topic may be written: not even the one that is there to test it."""
        by_server = await self._routes(SELF_TEST_TOPIC, seen.known)
        return {
            held.broker_name
            for route in by_server.values()
            for held in route.queues
            if not held.perm & Perm.WRITE
        }

    async def _routes(self, topic: str, servers: Iterable[str]) -> dict[str, TopicRoute]:
        found = {}
        for address in servers:
            request = GetRouteInfoByTopic(topic=topic, accept_standard_json_only=True)
            reply = await self._attempt(address, request)
            if reply is not None:
                found[address] = reply.route
        return found

    # Groups

    async def _groups(self) -> AsyncIterator[Finding]:
        try:
            names = await self._admin.groups.names()
        except RocketPipeError as error:
            yield unknown("groups", str(error))
            return
        if len(names) > MAX_GROUPS:
            yield unknown("groups", f"of {len(names)}, only the first {MAX_GROUPS} were looked at")
        if not names:
            yield ok("groups", "none")
        for some in (await each(names[:MAX_GROUPS], self._group)).values():
            for finding in some:
                yield finding

    async def _group(self, name: str) -> list[Finding]:
        connected: ConnectedGroup | None
        try:
            try:
                connected = await self._admin.clients.consumers(name)
            except NotOnline:
                connected = None
            progress = await self._admin.progress.of_group(name)
        except RocketPipeError as error:
            return [unknown(f"group {name}", str(error))]
        found = [
            findings.group_lag(
                name,
                progress.lag if progress.queues else None,
                len(connected.members) if connected else 0,
                self._most_lag,
                broadcast=connected is not None and connected.model == MessageModel.BROADCASTING,
            )
        ]
        if connected is not None and len(connected.members) > 1:
            pops = connected.consume_type == ConsumeType.CONSUME_POP
            wants = await self._wants(connected)
            found.append(findings.subscriptions(name, wants, pops=pops))
        return found

    async def _wants(self, group: ConnectedGroup) -> dict[str, Wants | None]:
        """What each member says that it wants; RocketMQ's older clients do not say."""
        ids = [member.client_id for member in group.members]

        async def ask(client_id: str) -> Wants | None:
            try:
                info = await self._admin.clients.running_info(group.name, client_id)
            except RocketPipeError:
                return None
            return findings.wants_of(
                [(one.topic, one.expression_type, one.expression) for one in info.subscriptions]
            )

        asked: dict[str, Wants | None] = await each(ids[:MAX_MEMBERS], ask)
        return asked | dict.fromkeys(ids[MAX_MEMBERS:])

    async def _left_behind(self) -> AsyncIterator[Finding]:
        try:
            groups = await self._admin.dead_letters.groups()
        except RocketPipeError as error:
            yield unknown("dead letters", str(error))
        else:
            if not groups:
                yield ok("dead letters", "none")
            for finding in (await each(groups[:MAX_GROUPS], self._letters)).values():
                yield finding
        ages: list[int] | None
        try:
            opened = await self._admin.waiting.transactions(limit=MAX_TRANSACTIONS)
            ages = [one.age_ms for one in opened]
        except RocketPipeError:
            ages = None
        yield findings.transactions(ages, MAX_TRANSACTIONS)

    async def _letters(self, group: str) -> Finding:
        try:
            count = await self._admin.dead_letters.count(group)
        except RocketPipeError:
            return findings.dead_letters(group, None, None)
        return findings.dead_letters(group, count.letters, count.replayed)

    async def _attempt(self, address: str, request: Request[ReplyT]) -> ReplyT | None:
        try:
            return await self._fleet.call(address, request)
        except RocketPipeError:
            return None


def _is_local(address: str) -> bool:
    host, _ = split_address(address)
    try:
        at = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return at.is_loopback or at.is_unspecified


def _shape(route: TopicRoute) -> tuple[object, ...]:
    """What routes are compared by: the order in which a NameServer names brokers is no matter."""
    queues = {held.broker_name: (held.read_queues, held.write_queues) for held in route.queues}
    perms = {held.broker_name: held.perm for held in route.queues}
    at: Mapping[str, list[tuple[int, str]]] = {
        one.broker_name: sorted(one.addresses.items()) for one in route.brokers
    }
    return (
        tuple(sorted(queues.items())),
        tuple(sorted(perms.items())),
        tuple((name, *addresses) for name, addresses in sorted(at.items())),
    )


def _apart(topics: list[str], looked_at: int, servers: int) -> Iterator[Finding]:
    if topics:
        yield problem(
            "routes",
            f"NameServers disagree on {findings.counted(len(topics), 'topic')}, such as "
            f"{topics[0]}",
            "have every broker name all NameServers, and wait half a minute",
        )
    elif servers > 1:
        yield ok(
            "routes",
            f"the same for {findings.counted(looked_at, 'topic')} at {servers} NameServers",
        )
