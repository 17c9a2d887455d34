"""The members of one consumer group, and what the group wants because of them.

Members are to subscribe alike. Where they do not, the group wants whatever any of them wants, and
of two expressions over one topic the one of the greater version counts: all read by that one, as
they do from RocketMQ's brokers. Some get what they did not ask for then, so it is told.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rocketpipe.model.subscription import (
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    Subscription,
)
from rocketpipe.protocol.codes import Language

log = logging.getLogger(__name__)

_SHOWN_MEMBERS: Final = 3

#: What makes two subscriptions different: their versions do not.
Wish = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One client, as its heartbeats show it."""

    connection: Hashable
    client_id: str
    language: Language | None = None
    version: int = 0
    #: Who it is by the word of the port's guard; None where there is none.
    by: Any = field(default=None, compare=False)

    @property
    def by_name(self) -> str:
        """The name of the user whose it is; empty where nobody has one."""
        return str(getattr(self.by, "name", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Consuming:
    """How a client consumes in one group; without ``subscriptions`` as it said before."""

    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    model: MessageModel = MessageModel.CLUSTERING
    from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    subscriptions: tuple[Subscription, ...] | None = ()
    #: The client's own hash of what it wants; 0 if it does not give one.
    fingerprint: int = 0


@dataclass(slots=True)
class Member:
    """One client in one group, and when it was last heard of on the monotonic clock."""

    client: Client
    beat_ms: int
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    model: MessageModel = MessageModel.CLUSTERING
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    #: What it wants, in a form that is the same for all who want the same.
    wishes: frozenset[Wish] = frozenset()
    fingerprint: int = 0


class ConsumerGroup:
    """The members of one group, and what the group wants because of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.model = MessageModel.CLUSTERING
        self.consume_type = ConsumeType.CONSUME_PASSIVELY
        self.from_where = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
        self._members: dict[Hashable, Member] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._wishes: Counter[frozenset[Wish]] = Counter()
        self._told_of: frozenset[frozenset[Wish]] = frozenset()

    def subscription(self, topic: str) -> Subscription | None:
        """What the group wants of a topic; None if it did not subscribe to it."""
        return self._subscriptions.get(topic)

    def subscriptions(self) -> Mapping[str, Subscription]:
        """What the group wants, by topic, as a copy."""
        return dict(self._subscriptions)

    def members(self) -> list[Member]:
        """Everyone in the group, in the order of their client ids."""
        return sorted(self._members.values(), key=lambda member: member.client.client_id)

    def has(self, client_id: str) -> bool:
        """Whether one of its members is this client."""
        return any(member.client.client_id == client_id for member in self._members.values())

    def client_ids(self) -> list[str]:
        """The ids of its members, each once, in order."""
        return sorted({member.client.client_id for member in self._members.values()})

    @property
    def size(self) -> int:
        """How many connections its members have."""
        return len(self._members)

    def connections(self) -> list[Hashable]:
        """Where its members can be told something."""
        return list(self._members)

    def member(self, connection: Hashable) -> Member | None:
        """The member that heartbeats on a connection, if there is one."""
        return self._members.get(connection)

    def mismatches(self) -> Mapping[str, frozenset[Wish]]:
        """What each member wants, by client id, if they do not all want the same; else nothing."""
        if len(self._wishes) < 2:
            return {}
        return {member.client.client_id: member.wishes for member in self._choosers()}

    def join(self, client: Client, consuming: Consuming, at_ms: int) -> tuple[bool, bool]:
        """Note a member: does it matter to the others, and did anything change at all?"""
        before = (self.model, dict(self._subscriptions))
        member = self._members.get(client.connection)
        is_new = member is None or member.client.client_id != client.client_id
        if member is None or is_new:
            self.leave(client.connection)
            member = self._members[client.connection] = Member(client, at_ms)
        member.beat_ms = at_ms
        self.model = member.model = consuming.model
        self.consume_type = member.consume_type = consuming.consume_type
        self.from_where = consuming.from_where
        if consuming.subscriptions is not None:
            member.fingerprint = consuming.fingerprint
            self._want(member, {each.topic: each for each in consuming.subscriptions})
        matters = is_new or self._subscriptions.keys() != before[1].keys()
        return matters, is_new or before != (self.model, self._subscriptions)

    def leave(self, connection: Hashable) -> Member | None:
        """Forget a member; None if it was not one."""
        member = self._members.get(connection)
        if member is not None:
            self._want(member, {})
            del self._members[connection]
        return member

    def _want(self, member: Member, wanted: dict[str, Subscription]) -> None:
        """Change what a member wants, and with it what the group does."""
        wanted_before = member.subscriptions
        if wanted == wanted_before:
            return
        member.subscriptions = wanted
        for topic in wanted_before.keys() | wanted.keys():
            chosen, offered = self._subscriptions.get(topic), wanted.get(topic)
            if chosen is None or (offered is not None and offered.version >= chosen.version):
                assert offered is not None
                self._subscriptions[topic] = offered
            elif chosen is wanted_before.get(topic):
                self._choose(topic)
        # Who pops says with each question what it wants, and may have topics of its own.
        pops = member.consume_type is ConsumeType.CONSUME_POP
        wishes = frozenset(
            (each.topic, each.expression_type, each.expression)
            for each in wanted.values()
            if not pops
        )
        if wishes != member.wishes:
            self._count(member.wishes, -1)
            self._count(wishes, 1)
            member.wishes = wishes
            self._report_mismatch()

    def _choose(self, topic: str) -> None:
        """Find what the group wants of a topic: of its members' wishes the greatest version."""
        offered = [
            wanted
            for member in self._members.values()
            if (wanted := member.subscriptions.get(topic)) is not None
        ]
        if offered:
            self._subscriptions[topic] = max(offered, key=lambda wanted: wanted.version)
        else:
            del self._subscriptions[topic]

    def _count(self, wishes: frozenset[Wish], change: int) -> None:
        # One that pulls without a subscription leaves the choice to the others.
        if wishes:
            self._wishes[wishes] += change
            if not self._wishes[wishes]:
                del self._wishes[wishes]

    def _report_mismatch(self) -> None:
        kinds = frozenset(self._wishes) if len(self._wishes) > 1 else frozenset()
        if kinds and kinds != self._told_of:
            shown: dict[frozenset[Wish], str] = {}
            for member in self._choosers():
                shown.setdefault(member.wishes, member.client.client_id)
            log.warning(
                "members of a group subscribe differently, so some get what they did not ask for "
                "group=%s kinds=%d such_as=%s",
                self.name,
                len(kinds),
                ",".join(sorted(shown.values())[:_SHOWN_MEMBERS]),
            )
        self._told_of = kinds

    def _choosers(self) -> Iterator[Member]:
        return (member for member in self._members.values() if member.wishes)
