"""Failed logins by where they came from: who tries too often gets one try a connection.

A good login is never held up, whatever others at its address do.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from rocketpipe.clock import Clock

#: So many failed requests end a connection,
MAX_ON_CONNECTION: Final = 20
#: and after so many a minute from one address each one does, for as long.
MAX_FROM_ADDRESS: Final = 100
WINDOW_MS: Final = 60_000
MAX_ADDRESSES: Final = 4096


@dataclass(slots=True)
class _Tries:
    since_ms: int
    count: int = 0
    flooded_until_ms: int = 0


class Failures:
    """Counts failed logins; bounded, the longest unheard of are forgotten first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tries: OrderedDict[str, _Tries] = OrderedDict()
        #: How many there were in all, by reason.
        self.totals: dict[str, int] = {}

    def failed(self, address: str, reason: str) -> None:
        """Count one from this address (a host, without a port)."""
        self.totals[reason] = self.totals.get(reason, 0) + 1
        now_ms, where = self._clock.monotonic_ms(), neighbourhood(address)
        tries = self._tries.pop(where, None)
        if tries is None or now_ms - tries.since_ms >= WINDOW_MS:
            tries = _Tries(now_ms, flooded_until_ms=tries.flooded_until_ms if tries else 0)
        tries.count += 1
        if tries.count >= MAX_FROM_ADDRESS:
            tries.flooded_until_ms = now_ms + WINDOW_MS
        self._tries[where] = tries
        if len(self._tries) > MAX_ADDRESSES:
            self._tries.popitem(last=False)

    def is_flooded(self, address: str) -> bool:
        """Whether so many failed from this address that the next failure ends its connection."""
        tries = self._tries.get(neighbourhood(address))
        return tries is not None and self._clock.monotonic_ms() < tries.flooded_until_ms

    def __len__(self) -> int:
        return len(self._tries)


def neighbourhood(address: str) -> str:
    """Give what counts as one source: an IPv4 address, or the /64 of an IPv6 address."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ip_network((found, 64), strict=False))
    return address
