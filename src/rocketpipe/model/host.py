"""Where a message came from, or was stored: an IP address and a port.

In a record and in an offset id it is the 4 or 16 bytes of the address and a port of 4 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from struct import Struct
from typing import Final

from rocketpipe.errors import InvalidName

_PORT: Final = Struct(">i")


@dataclass(frozen=True, slots=True)
class Host:
    """An IP address, 4 or 16 bytes, and a port."""

    ip: bytes
    port: int

    def __post_init__(self) -> None:
        if len(self.ip) not in (4, 16):
            raise InvalidName("host", self.ip.hex(), "an IP address has 4 or 16 bytes")
        if not -(1 << 31) <= self.port < 1 << 31:
            raise InvalidName("host", self.ip.hex(), f"{self.port} does not fit a port's 4 bytes")

    @classmethod
    def parse(cls, text: str) -> Host:
        """Read ``10.0.0.1:10911`` or ``[::1]:10911``.

        Raises:
            InvalidName: If it is not an IP address and a port from 0 to 65535.
        """
        address, colon, port = text.rpartition(":")
        if not colon or not (port.isascii() and port.isdigit() and len(port) <= 5):
            raise InvalidName("host", text[:100], "is not ip:port")
        if int(port) > 65535:
            raise InvalidName("host", text[:100], "a port is at most 65535")
        bracketed = address.startswith("[") and address.endswith("]")
        try:
            ip = ip_address(address[1:-1] if bracketed else address).packed
        except ValueError:
            raise InvalidName("host", text[:100], "is not ip:port") from None
        if bracketed != (len(ip) == 16):
            raise InvalidName("host", text[:100], "brackets go around IPv6, and only there")
        return cls(ip, int(port))

    @classmethod
    def unpack(cls, packed: bytes) -> Host:
        """Read the 8 or 20 bytes of a record.

        Raises:
            InvalidName: If they are neither 8 nor 20.
        """
        return _unpack(packed)

    def pack(self) -> bytes:
        """Give the 8 or 20 bytes that stand in a record."""
        return self.ip + _PORT.pack(self.port)

    @property
    def is_v6(self) -> bool:
        """Whether the address is IPv6, which a record marks in its sysFlag."""
        return len(self.ip) == 16

    def __str__(self) -> str:
        address = ip_address(self.ip)
        return f"[{address}]:{self.port}" if self.is_v6 else f"{address}:{self.port}"


# Millions of records come from a handful of hosts.
@lru_cache(maxsize=1024)
def _unpack(packed: bytes) -> Host:
    if len(packed) not in (8, 20):
        raise InvalidName("host", packed[:32].hex(), "a packed host has 8 or 20 bytes")
    return Host(packed[:-4], _PORT.unpack_from(packed, len(packed) - 4)[0])
