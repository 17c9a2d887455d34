"""Brokers that were slow or failed, and until when producers avoid them.

RocketMQ has had two sets of rules, and both are here. By the latency of a send, in milliseconds:

    4.9       at least    550    1000    2000    3000   15000   a failure counts as 30000
              avoided   30000   60000  120000  180000  600000
    5.x       at least    550    1800    3000    5000   15000   a failure counts as 10000
              avoided    2000    5000    6000   10000   30000

4.9 overwrites what it knew with each send, 5.x only ever puts the end off. 5.x knows besides
whether a broker is reachable: one that refused a message is not, until a send or a probe succeeds.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from rocketpipe.clock import Clock

MAX_BROKERS: Final = 1024
PROBE_EVERY_MS: Final = 2000


@dataclass(frozen=True, slots=True)
class FaultRules:
    """How long a broker is avoided after a send that took so long, and how failures count."""

    #: A latency in milliseconds and what follows from it, the greatest first.
    steps: tuple[tuple[int, int], ...]
    failure_counts_ms: int
    #: Whether a later, better send makes the broker available again.
    overwrites: bool

    def avoided_ms(self, latency_ms: int, *, failed: bool = False) -> int:
        """How long a broker is avoided for this."""
        counted_ms = self.failure_counts_ms if failed else latency_ms
        return next((avoided for least, avoided in self.steps if counted_ms >= least), 0)


class Variant(Enum):
    """Which release's rules a producer follows when it avoids slow brokers."""

    V4 = FaultRules(
        (
            (15_000, 600_000),
            (3000, 180_000),
            (2000, 120_000),
            (1000, 60_000),
            (550, 30_000),
        ),
        failure_counts_ms=30_000,
        overwrites=True,
    )
    V5 = FaultRules(
        (
            (15_000, 30_000),
            (5000, 10_000),
            (3000, 6000),
            (1800, 5000),
            (550, 2000),
        ),
        failure_counts_ms=10_000,
        overwrites=False,
    )


@dataclass(slots=True)
class _Fault:
    latency_ms: int
    until_ms: int
    reachable: bool
    probed_ms: int


class FaultTable:
    """What is known of each broker by its name; of too many, the oldest entry goes."""

    def __init__(
        self,
        rules: FaultRules,
        clock: Clock,
        chance: random.Random,
        *,
        max_brokers: int = MAX_BROKERS,
    ) -> None:
        self._rules = rules
        self._clock = clock
        self._chance = chance
        self._max_brokers = max_brokers
        self._faults: dict[str, _Fault] = {}
        self._picks = chance.randrange(1 << 16)

    def note(
        self, broker: str, latency_ms: int, *, failed: bool = False, reachable: bool = True
    ) -> None:
        """Remember how a send went."""
        now_ms = self._clock.monotonic_ms()
        until_ms = now_ms + self._rules.avoided_ms(latency_ms, failed=failed)
        fault = self._faults.get(broker)
        if fault is None:
            while len(self._faults) >= self._max_brokers:
                del self._faults[next(iter(self._faults))]
            self._faults[broker] = _Fault(latency_ms, until_ms, reachable, now_ms)
            return
        fault.latency_ms = latency_ms
        fault.until_ms = until_ms if self._rules.overwrites else max(fault.until_ms, until_ms)
        fault.reachable = reachable

    def is_available(self, broker: str) -> bool:
        """Whether its time has passed, or nothing bad is known of it."""
        fault = self._faults.get(broker)
        return fault is None or self._clock.monotonic_ms() >= fault.until_ms

    def is_reachable(self, broker: str) -> bool:
        """Whether it did not refuse the last message, or has answered since."""
        fault = self._faults.get(broker)
        return fault is None or fault.reachable

    def pick_at_least_one(self) -> str | None:
        """One of the better half of all brokers in the table, in turn; None of an empty table.

        Better is available, then faster, then available sooner. Equal ones come in random order.
        """
        now_ms = self._clock.monotonic_ms()
        names = list(self._faults)
        if not names:
            return None
        self._chance.shuffle(names)

        def worse(name: str) -> tuple[bool, int, int]:
            fault = self._faults[name]
            return now_ms < fault.until_ms, fault.latency_ms, fault.until_ms

        names.sort(key=worse)
        half = len(names) // 2
        if half == 0:
            return names[0]
        self._picks += 1
        return names[self._picks % half]

    def forget(self, broker: str) -> None:
        """Know nothing of a broker any more."""
        self._faults.pop(broker, None)

    # Probes: how an unreachable broker is found to be back without a message

    def to_probe(self) -> list[str]:
        """Brokers that are not reachable and were not looked at lately; each counts as probed."""
        now_ms = self._clock.monotonic_ms()
        due = [
            name
            for name, fault in self._faults.items()
            if not fault.reachable and now_ms - fault.probed_ms >= PROBE_EVERY_MS
        ]
        for name in due:
            self._faults[name].probed_ms = now_ms
        return due

    def answered(self, broker: str) -> None:
        """A probe was answered: the broker is reachable again, when its time has passed too."""
        fault = self._faults.get(broker)
        if fault is not None:
            fault.reachable = True

    def retain(self, known: Callable[[str], bool]) -> None:
        """Forget every broker that is not known any more."""
        for name in [name for name in self._faults if not known(name)]:
            del self._faults[name]
