"""Permissions as RocketMQ 4.9 writes them, made into entries of today."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rocketpipe.auth.policy import Action, Decision, Entry, Kind, Resource

#: The five texts that there are; 4.9 takes any other for DENY, and its successor for everything.
PERMS: Final = {
    "DENY": frozenset[Action](),
    "PUB": frozenset({Action.PUB}),
    "SUB": frozenset({Action.SUB}),
    "PUB|SUB": frozenset({Action.PUB, Action.SUB}),
    "SUB|PUB": frozenset({Action.PUB, Action.SUB}),
}


def perm_entry(kind: Kind, name: str, perm: str, sources: tuple[str, ...] = ()) -> Entry:
    """Make an entry of a name (``*`` for all) and its permission.

    Raises:
        ValueError: If the permission is none of the five.
    """
    actions = PERMS.get(perm)
    if actions is None:
        known = ", ".join(PERMS)
        raise ValueError(f"{perm[:40]!r} is no permission: these are {known}, and nothing else")
    return Entry(
        resource=Resource.parse(f"{kind.value}:{name}"),
        actions=actions or frozenset({Action.ALL}),
        sources=sources,
        decision=Decision.ALLOW if actions else Decision.DENY,
    )


def perm_entries(kind: Kind, pairs: Iterable[str], sources: tuple[str, ...] = ()) -> list[Entry]:
    """Make entries of ``name=PERM`` texts.

    Raises:
        ValueError: If one is none.
    """
    found = []
    for pair in pairs:
        name, equals, perm = pair.strip().partition("=")
        if not equals or not name or "*" in name:
            raise ValueError(f"{pair[:80]!r} is not name=PERMISSION")
        found.append(perm_entry(kind, name, perm, sources))
    return found
