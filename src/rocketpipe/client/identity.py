"""Who a client is: the id that brokers know it by, and the keys it gives its messages.

    client id   ip@instance[@unit]; the instance is pid#nanotime unless it is given

Members of a group sort by these ids when they share out queues, and a broker tells them apart by
them, so no two running clients may have the same.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import time
import zlib
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from typing import Final

from rocketpipe.errors import InvalidName
from rocketpipe.model.ids import UniqueKeys

#: The instance of broadcast consumers, whose offsets are kept in a file named after their id.
SHARED_INSTANCE: Final = "DEFAULT"

MAX_PART: Final = 128

#: Nothing needs to be there for the kernel to say which of our addresses it would use.
_ELSEWHERE: Final = (
    (socket.AF_INET, ("192.0.2.1", 9)),
    (socket.AF_INET6, ("2001:db8::1", 9)),
)

# A clock may be too coarse to tell two clients of a process apart.
_made = count()


@dataclass(frozen=True, slots=True)
class Identity:
    """What one client is called, in the process that it was made in."""

    client_id: str
    ip: bytes
    process_id: int
    serial: int

    @classmethod
    def of_this_process(cls, instance: str | None = None, unit: str | None = None) -> Identity:
        """Name a new client.

        Raises:
            InvalidName: If ``instance`` or ``unit`` could not be told from the rest of the id.
        """
        for kind, text in (("instance", instance), ("unit", unit)):
            if text is not None:
                _check(kind, text)
        process_id = os.getpid()
        serial = time.monotonic_ns() + next(_made)
        address = own_address()
        parts = [str(address), instance or f"{process_id}#{serial}", *([unit] if unit else [])]
        return cls("@".join(parts), address.packed, process_id, serial)

    def unique_keys(self) -> UniqueKeys:
        """What makes the keys of this client's messages; no other client makes the same."""
        loader = zlib.crc32(f"{self.client_id} {self.serial}".encode())
        return UniqueKeys(self.ip, self.process_id, loader)


def own_address() -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """This machine's address in its network, IPv4 if it has one; nothing is sent to find out."""
    for family, elsewhere in _ELSEWHERE:
        try:
            with closing(socket.socket(family, socket.SOCK_DGRAM)) as probe:
                probe.connect(elsewhere)
                return ipaddress.ip_address(probe.getsockname()[0].partition("%")[0])
        except OSError:
            continue  # no network of that kind
    return ipaddress.IPv4Address("127.0.0.1")


def _check(kind: str, text: str) -> None:
    if not text or len(text) > MAX_PART:
        raise InvalidName(kind, text[:MAX_PART], f"has 1 to {MAX_PART} characters")
    if any(letter == "@" or letter.isspace() or not letter.isprintable() for letter in text):
        raise InvalidName(kind, text, "has no blanks, no '@' and no control characters")
