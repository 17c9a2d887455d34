"""What users are allowed: entries, and how they are judged.

    Topic:orders  Topic:orders*  Topic:*  *      a name, a prefix, all of a kind, everything

An entry counts that is about the resource, has an action that would suffice, and the source it is
for. Those of a policy's own part (Custom) come first, the others (Default) where none of these
counts; of several the most specific decides, and of two alike the one that denies. Where none
counts the answer is no.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from rocketpipe.model.names import RETRY_PREFIX


class Action(Enum):
    """What is done to a resource."""

    ALL = "All"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class Kind(Enum):
    """What a resource is."""

    ANY = "*"
    TOPIC = "Topic"
    GROUP = "Group"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"


class Breadth(Enum):
    """How many names a resource stands for; the narrower decides."""

    LITERAL = 0
    PREFIX = 1
    ANY = 2


class Decision(Enum):
    """What an entry says."""

    ALLOW = "Allow"
    DENY = "Deny"


class Part(Enum):
    """Which part of a policy an entry is in."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


@dataclass(frozen=True, slots=True)
class Resource:
    """What an entry is about."""

    kind: Kind
    #: Of a prefix, what names begin with.
    name: str = ""
    breadth: Breadth = Breadth.LITERAL

    @classmethod
    def parse(cls, text: str) -> Resource:
        """Read ``Topic:orders*`` and its like.

        Raises:
            ValueError: If it is none.
        """
        if text == "*":
            return cls(Kind.ANY, "", Breadth.ANY)
        word, colon, name = text.partition(":")
        kind = _KINDS.get(word.lower())
        if kind is None or not colon or not name.strip():
            raise ValueError(
                f"{text[:80]!r} is no resource: Topic:NAME, Group:NAME, Cluster:NAME, with * at "
                "the end for all that begin so, or * alone"
            )
        if kind is Kind.GROUP:
            name = name.removeprefix(RETRY_PREFIX)
        if name == "*":
            return cls(kind, "", Breadth.ANY)
        if name.endswith("*"):
            return cls(kind, name.partition("*")[0], Breadth.PREFIX)
        return cls(kind, name)

    def __str__(self) -> str:
        if self.kind is Kind.ANY:
            return "*"
        return f"{self.kind.value}:{self.name}{'' if self.breadth is Breadth.LITERAL else '*'}"

    def covers(self, kind: Kind, name: str) -> bool:
        """Whether this resource stands for that one."""
        if self.kind is Kind.ANY:
            return True
        if self.kind is not kind:
            return False
        if self.breadth is Breadth.LITERAL:
            return self.name == name
        return self.breadth is Breadth.ANY or name.startswith(self.name)


_KINDS: Final = {kind.value.lower(): kind for kind in Kind if kind is not Kind.ANY}
_ACTIONS: Final = {action.value.lower(): action for action in Action}


def parse_action(text: str) -> Action:
    """Read an action's name, in whatever case.

    Raises:
        ValueError: If it is none.
    """
    action = _ACTIONS.get(text.strip().lower())
    if action is None:
        known = ", ".join(each.value for each in Action)
        raise ValueError(f"{text[:40]!r} is no action: these are {known}")
    return action


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a policy."""

    resource: Resource
    actions: frozenset[Action]
    #: Addresses and networks that it is for; all where there are none.
    sources: tuple[str, ...] = ()
    decision: Decision = Decision.ALLOW

    def counts(self, wanted: Wanted, source: str) -> bool:
        """Whether it has a say in this."""
        return (
            self.resource.covers(wanted.kind, wanted.name)
            and (Action.ALL in self.actions or not wanted.actions.isdisjoint(self.actions))
            and (not self.sources or any(is_from(source, each) for each in self.sources))
        )

    def __str__(self) -> str:
        actions = ",".join(each.value for each in Action if each in self.actions)
        sources = f" from {','.join(self.sources)}" if self.sources else ""
        return f"{self.decision.value} {actions} on {self.resource}{sources}"

    @property
    def rank(self) -> tuple[bool, int, int, bool]:
        """What sorts the deciding entry in front."""
        resource = self.resource
        return (
            resource.kind is Kind.ANY,
            resource.breadth.value,
            -len(resource.name),
            self.decision is not Decision.DENY,
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request is about to do: any one of the actions suffices."""

    kind: Kind
    name: str
    actions: frozenset[Action]

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Everything that one subject is allowed, or denied."""

    subject: str
    entries: Mapping[Part, tuple[Entry, ...]] = field(default_factory=dict)

    def of(self, part: Part) -> tuple[Entry, ...]:
        return self.entries.get(part, ())

    def with_entries(self, part: Part, entries: Iterable[Entry]) -> Policy:
        """Take entries in, in the place of those about the same resources."""
        new = {each.resource: each for each in entries}
        kept = [each for each in self.of(part) if each.resource not in new]
        return Policy(subject=self.subject, entries={**self.entries, part: (*kept, *new.values())})

    def without(self, resource: Resource, part: Part | None = None) -> Policy:
        """Leave out what is about this resource, in one part or in both."""
        entries = {
            each: tuple(
                entry
                for entry in some
                if entry.resource != resource or (part is not None and part is not each)
            )
            for each, some in self.entries.items()
        }
        return Policy(
            subject=self.subject, entries={each: some for each, some in entries.items() if some}
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether it is allowed, and by which entry; None where no entry counts."""

    allowed: bool
    entry: Entry | None = None
    part: Part | None = None

    @property
    def reason(self) -> str:
        return "no matched policies" if self.entry is None else "the decision is deny"


def decide(policy: Policy | None, wanted: Wanted, source: str) -> Verdict:
    """Judge what one subject wants."""
    if policy is not None:
        for part in Part:
            entries = [each for each in policy.of(part) if each.counts(wanted, source)]
            if entries:
                entry = min(entries, key=lambda each: each.rank)
                return Verdict(entry.decision is Decision.ALLOW, entry, part)
    return Verdict(False)


def check_source(text: str) -> str:
    """Take an address or a network.

    Raises:
        ValueError: If it is neither.
    """
    if _network(text) is None:
        raise ValueError(f"{text[:60]!r} is neither an address nor a network (10.1.0.0/16)")
    return text.strip()


def check_address(text: str) -> str:
    """Take one address.

    Raises:
        ValueError: If it is none.
    """
    if _address(text.strip()) is None:
        raise ValueError(f"{text[:60]!r} is no address, such as 10.1.2.3")
    return text.strip()


def is_from(source: str, where: str) -> bool:
    """Tell whether an address is the one given, or lies in the network given."""
    network, address = _network(where), _address(source)
    if network is None or address is None:
        return source == where
    return address.version == network.version and address in network


@lru_cache(maxsize=4096)
def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.version == 6 and address.ipv4_mapped) or address
