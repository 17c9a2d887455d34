"""Who stopped beating.

A broker is alive for as long as it is heard of within its timeout, by a registration, a heartbeat
or a question about its version, and its connection holds: that on which it registered last.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

DEFAULT_TIMEOUT_MS: Final = 120_000
LONGEST_TIMEOUT_MS: Final = 24 * 3_600_000

PeerT = TypeVar("PeerT", bound=Hashable)


@dataclass(slots=True)
class _Pulse(Generic[PeerT]):
    heard_ms: int
    timeout_ms: int
    peer: PeerT


@dataclass(frozen=True, slots=True)
class Silent(Generic[PeerT]):
    """A broker that was not heard of in time."""

    address: str
    silent_ms: int
    peer: PeerT


class Liveness(Generic[PeerT]):
    """When each broker was last heard of, and on which connection. Times are monotonic."""

    def __init__(self) -> None:
        self._pulses: dict[str, _Pulse[PeerT]] = {}
        self._by_peer: dict[PeerT, set[str]] = {}

    def __len__(self) -> int:
        return len(self._pulses)

    def registered(self, address: str, peer: PeerT, timeout_ms: int | None, now_ms: int) -> None:
        """Watch a broker from now on; its own timeout counts, or else two minutes."""
        self.forget(address)
        if timeout_ms is None:
            timeout_ms = DEFAULT_TIMEOUT_MS
        timeout_ms = min(max(timeout_ms, 1), LONGEST_TIMEOUT_MS)
        self._pulses[address] = _Pulse(now_ms, timeout_ms, peer)
        self._by_peer.setdefault(peer, set()).add(address)

    def beat(self, address: str, now_ms: int) -> None:
        """Note that a broker was heard of; one that is not watched is not watched now either."""
        pulse = self._pulses.get(address)
        if pulse is not None:
            pulse.heard_ms = now_ms

    def forget(self, address: str) -> None:
        """Watch a broker no longer."""
        pulse = self._pulses.pop(address, None)
        if pulse is None:
            return
        addresses = self._by_peer[pulse.peer]
        addresses.remove(address)
        if not addresses:
            del self._by_peer[pulse.peer]

    def take_silent(self, now_ms: int) -> list[Silent[PeerT]]:
        """Give the brokers that were silent for longer than they may, and forget them."""
        silent = [
            Silent(address, now_ms - pulse.heard_ms, pulse.peer)
            for address, pulse in self._pulses.items()
            if now_ms - pulse.heard_ms > pulse.timeout_ms
        ]
        for broker in silent:
            self.forget(broker.address)
        return silent

    def take_lost(self, peer: PeerT) -> list[str]:
        """Give the brokers that registered last on a connection which ended; forget them."""
        lost = sorted(self._by_peer.get(peer, ()))
        for address in lost:
            self.forget(address)
        return lost
