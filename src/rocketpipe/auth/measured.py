"""What is measured of who was let in: by all gates of this process together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final
from weakref import WeakSet

from rocketpipe.auth.gate import Gate
from rocketpipe.metrics import Family, Kind, Series, single

#: Those of this process: a broker and its NameServer may have one each.
_live: Final[WeakSet[Gate]] = WeakSet()


def measure(gate: Gate) -> None:
    """Have a gate among those that are measured, for as long as it is there."""
    _live.add(gate)


def families() -> Iterator[Family]:
    """Who was refused, and why; nothing where nobody is asked for a name."""
    gates = list(_live)
    if not gates:
        return
    reasons: Counter[str] = Counter()
    for gate in gates:
        reasons.update(gate.failures.totals)
    denied = sum(gate.denied for gate in gates)
    yield from measured(reasons, denied, max(len(gate.users) for gate in gates))


def measured(reasons: Mapping[str, int], denied: int, users: int) -> Iterator[Family]:
    """The same of numbers that are known."""
    yield Family(
        "rocketpipe_auth_failures_total",
        Kind.COUNTER,
        "Requests refused for want of a login, by reason.",
        [Series(count, {"reason": reason}) for reason, count in sorted(reasons.items())],
    )
    yield single(
        "rocketpipe_auth_denied_total",
        Kind.COUNTER,
        "Requests of known users refused for want of a right.",
        denied,
    )
    yield single("rocketpipe_auth_users", Kind.GAUGE, "Users that are known.", users)
