"""Ports for child processes that have to find them free again when they are started anew."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable, Iterator
from typing import Final

from rocketpipe.errors import ConfigError

#: Below those that systems hand out to whoever connects: a port that is let go for a moment, while
#: its process starts again, is not taken by others.
_FIRST_PORT: Final = 11_000
_END_PORT: Final = 32_000


class LastingPorts(Iterator[int]):
    """Ports that nobody listens on, and none of them twice."""

    def __init__(self, host: str, taken: Iterable[int] = ()) -> None:
        """Take where they are to be free, and which are not to be given out."""
        self._host = host
        self._taken = set(taken)
        # Not by a seed: others may choose at the same moment.
        every = range(_FIRST_PORT, _END_PORT)
        self._candidates = iter(random.SystemRandom().sample(every, len(every)))

    def __next__(self) -> int:
        """Give one.

        Raises:
            ConfigError: None is free.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        for port in self._candidates:
            if port in self._taken:
                continue
            try:
                socket.create_server((self._host, port), family=family).close()
            except OSError:
                continue
            self._taken.add(port)
            return port
        raise ConfigError("ports", f"none from {_FIRST_PORT} to {_END_PORT} is free")
