"""Who is connected, and for which groups they produce and consume."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Final

from rocketpipe.broker.tables.consumer_group import (
    Client,
    ConsumerGroup,
    Consuming,
    Member,
    Wish,
)
from rocketpipe.broker.tables.limits import TableFull, TableLimits
from rocketpipe.model.subscription import Subscription

SILENT_MS: Final = 120_000


class ClientTable:
    """Producers and consumers by their groups and connections.

    Times are those of the monotonic clock: setting the wall clock makes nobody silent.
    """

    def __init__(self, limits: TableLimits | None = None, *, silent_ms: int = SILENT_MS) -> None:
        """Begin with nobody; whoever is silent for longer than ``silent_ms`` is gone."""
        self._limits = limits or TableLimits()
        self._silent_ms = silent_ms
        self._groups: dict[str, ConsumerGroup] = {}
        self._producers: dict[str, dict[Hashable, Member]] = {}
        #: Grows with every change of a member, a model or a subscription.
        self.changes = 0
        #: Told of the group and the connection of each consumer that says that it leaves.
        self.on_left: list[Callable[[str, Hashable], None]] = []
        self._consumes: dict[Hashable, set[str]] = {}
        self._produces: dict[Hashable, set[str]] = {}

    # Consumers

    def consumer_group(self, name: str) -> ConsumerGroup | None:
        """A group that has a member now."""
        return self._groups.get(name)

    def consumer_groups(self) -> list[str]:
        """The groups that have a member now, in order."""
        return sorted(self._groups)

    def join(self, group: str, client: Client, consuming: Consuming, at_ms: int) -> bool:
        """Note a member's heartbeat; True when the other members are to be told.

        Raises:
            TableFull: If it is one too many; it was not noted.
        """
        self._check_room(group, client.connection, consuming.subscriptions or ())
        found = self._groups.get(group)
        if found is None:
            found = self._groups[group] = ConsumerGroup(group)
        self._consumes.setdefault(client.connection, set()).add(group)
        matters, changed = found.join(client, consuming, at_ms)
        self.changes += changed
        return matters

    def leave(self, group: str, connection: Hashable) -> bool:
        """Forget a member; True when it was one."""
        found = self._groups.get(group)
        if found is None or found.leave(connection) is None:
            return False
        if not found.size:
            del self._groups[group]
        _drop(self._consumes, connection, group)
        self.changes += 1
        for told in self.on_left:
            told(group, connection)
        return True

    def fingerprint(self, group: str, client: Client) -> int | None:
        """What a member gave with the subscriptions that are known of it; None if it is new."""
        found = self._groups.get(group)
        member = found.member(client.connection) if found else None
        if member is None or member.client.client_id != client.client_id:
            return None
        return member.fingerprint

    def size(self, group: str) -> int:
        """How many connections a group has."""
        found = self._groups.get(group)
        return found.size if found else 0

    def members(self, group: str) -> list[str]:
        """The client ids of a group, in order."""
        found = self._groups.get(group)
        return found.client_ids() if found else []

    def is_member(self, group: str, client_id: str) -> bool:
        """Whether a client is in a group, by whichever connection."""
        found = self._groups.get(group)
        return found is not None and found.has(client_id)

    def connections(self, group: str) -> list[Hashable]:
        """Where the members of a group can be told something."""
        found = self._groups.get(group)
        return found.connections() if found else []

    def mismatches(self, group: str) -> Mapping[str, frozenset[Wish]]:
        """What each member wants, by client id, if they do not all want the same; else nothing.

        A wish is a topic, the kind of the expression, and the expression.
        """
        found = self._groups.get(group)
        return found.mismatches() if found else {}

    # Producers

    def produce(self, group: str, client: Client, at_ms: int) -> None:
        """Note a producer's heartbeat.

        Raises:
            TableFull: If it is one too many; it was not noted.
        """
        members = self._producers.get(group)
        if members is None or client.connection not in members:
            self._check_size("producer groups", self._producers, group)
            self._check_members(group, len(members or ()))
            self._check_client(self._produces.get(client.connection, ()))
        self._producers.setdefault(group, {})[client.connection] = Member(client, at_ms)
        self._produces.setdefault(client.connection, set()).add(group)

    def stop_producing(self, group: str, connection: Hashable) -> bool:
        """Forget a producer; True when it was one."""
        members = self._producers.get(group)
        if members is None or members.pop(connection, None) is None:
            return False
        if not members:
            del self._producers[group]
        _drop(self._produces, connection, group)
        return True

    def producers(self, group: str) -> list[Client]:
        """The producers of a group, in the order of their ids."""
        members = self._producers.get(group, {}).values()
        return sorted((member.client for member in members), key=lambda client: client.client_id)

    def producers_by_group(self) -> dict[str, list[Member]]:
        """Every producer, by its groups in order."""
        return {group: list(members.values()) for group, members in sorted(self._producers.items())}

    def producers_called(self, client_id: str) -> list[Client]:
        """The producers with this id, whatever their groups."""
        return [
            member.client
            for members in self._producers.values()
            for member in members.values()
            if member.client.client_id == client_id
        ]

    # Both

    def disconnect(self, connection: Hashable) -> list[str]:
        """Forget a connection; gives the consumer groups that lost a member."""
        for group in list(self._produces.get(connection, ())):
            self.stop_producing(group, connection)
        groups = sorted(self._consumes.get(connection, ()))
        return [group for group in groups if self.leave(group, connection)]

    def expire(self, at_ms: int) -> tuple[list[str], list[Client]]:
        """Forget who was silent too long: the groups that lost members, and the clients."""
        lost: set[str] = set()
        silent: dict[Hashable, Client] = {}
        for name, group in list(self._groups.items()):
            for member in self._silent(group.members(), at_ms):
                self.leave(name, member.client.connection)
                silent[member.client.connection] = member.client
                lost.add(name)
        for name, members in list(self._producers.items()):
            for member in self._silent(members.values(), at_ms):
                self.stop_producing(name, member.client.connection)
                silent[member.client.connection] = member.client
        return sorted(lost), list(silent.values())

    def _silent(self, members: Iterable[Member], at_ms: int) -> list[Member]:
        return [member for member in members if at_ms - member.beat_ms > self._silent_ms]

    def _check_room(
        self, group: str, connection: Hashable, subscriptions: tuple[Subscription, ...]
    ) -> None:
        limits = self._limits
        if len(subscriptions) > limits.subscriptions:
            raise TableFull(
                f"subscriptions for one member of group {group} at most",
                limits.subscriptions,
                "subscribe to fewer topics, or in more groups",
            )
        if any(len(each.expression) > limits.expression for each in subscriptions):
            raise TableFull(
                f"characters for one expression of group {group} at most",
                limits.expression,
                "subscribe with a shorter one",
            )
        found = self._groups.get(group)
        if found is None or found.member(connection) is None:
            self._check_size("consumer groups with members", self._groups, group)
            self._check_members(group, found.size if found else 0)
            self._check_client(self._consumes.get(connection, ()))

    def _check_size(self, what: str, table: Mapping[str, object], name: str) -> None:
        if name not in table and len(table) >= self._limits.online_groups:
            raise TableFull(what, self._limits.online_groups, "spread them over more brokers")

    def _check_members(self, group: str, count: int) -> None:
        if count >= self._limits.members:
            raise TableFull(
                f"members in group {group}", self._limits.members, "use a group of another name"
            )

    def _check_client(self, groups: Collection[str]) -> None:
        if len(groups) >= self._limits.groups_of_client:
            raise TableFull(
                "groups for one connection", self._limits.groups_of_client, "use more clients"
            )


def _drop(table: dict[Hashable, set[str]], connection: Hashable, group: str) -> None:
    groups = table.get(connection)
    if groups is not None:
        groups.discard(group)
        if not groups:
            del table[connection]
