"""What a feature does in the fast path: it takes frames, and deals with them together."""

from __future__ import annotations

from typing import Protocol

from rocketpipe.protocol.connection import Frame
from rocketpipe.remoting.connection import PeerConnection


class TurnLane(Protocol):
    """Takes what can be done for less, and does it at the end of a turn of the loop."""

    def take(self, buffer: bytes, frame: Frame, peer: PeerConnection) -> bool:
        """Keep a frame for the end of the turn; False if it is for the router."""

    def end_turn(self) -> None:
        """Deal with what was taken in this turn."""

    async def finish(self) -> None:
        """Return once everything that was taken is answered."""
