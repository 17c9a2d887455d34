"""What a server puts before its handlers, to answer for less what comes most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rocketpipe.protocol.connection import Frame

if TYPE_CHECKING:
    from rocketpipe.remoting.connection import PeerConnection


class Lane(Protocol):
    """Whoever is given what one read brought, before everybody else."""

    def take_first(self, data: bytes, peer: PeerConnection) -> int:
        """Answer the whole frames with which it begins; gives where the first begins that it left.

        ``data`` begins with a frame, and the peer keeps up.
        """

    def take_frames(self, buffer: bytes, frames: list[Frame], peer: PeerConnection) -> None:
        """Answer what it knows how to, and have the peer `take` the rest."""
