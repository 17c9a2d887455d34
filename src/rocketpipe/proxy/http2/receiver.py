"""What a connection is given: whom it tells, what it may have, and where it counts what waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rocketpipe.proxy.http2.stream import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Http2Limits:
    """What one connection may have."""

    streams: int = 4096
    #: Of one block, as the standard counts them.
    header_bytes: int = 16 * 1024


class Unread:
    """What peers have not taken yet, on all connections of a port."""

    def __init__(self) -> None:
        self.bytes = 0


class Receiver(Protocol):
    """Whom a connection tells what comes."""

    def began(self, stream: Stream) -> None:
        """Its headers are there."""

    def grew(self, stream: Stream) -> None:
        """There is more in its body, or it ends."""

    def gone(self, stream: Stream, reason: str) -> None:
        """It is over without having been served."""

    def blocked(self, stream: Stream) -> None:
        """What was written waits for the peer."""

    def taken(self, stream: Stream) -> None:
        """What had waited was taken."""

    def ponged(self) -> None:
        """The peer is there."""
