"""Ports that servers of tests can let go and take again."""

from __future__ import annotations

import os
import random
import socket

_FIRST = 20_000
#: Below those that systems hand out for port 0, which other tests ask for.
_END = 32_000
#: Each process of a run has ports that the others leave alone.
_EACH = 1_000


def lasting_ports(count: int) -> list[int]:
    """So many different ports that nobody listens on, and that nobody else is given."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = _FIRST + worker * _EACH % (_END - _FIRST)
    ports: list[int] = []
    # Not by a seed: another run of the tests may be under way on this machine.
    for port in random.SystemRandom().sample(range(first, first + _EACH), _EACH):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise AssertionError(f"no {count} of the ports from {first} on are free")
