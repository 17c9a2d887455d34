"""A fast path behind a gate: it is given only frames that were checked, each by itself.

Whatever is not cleared goes to the router, which says why. A fast path may look at all that lies
between the frames it is given, so it is given runs of neighbours.
"""

from __future__ import annotations

from typing import Final

from rocketpipe.auth.gate import Gate
from rocketpipe.errors import FrameError
from rocketpipe.protocol.connection import Frame
from rocketpipe.protocol.hot import scan
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.remoting.lane import Lane

#: What a fast path takes at once from the beginning of a read; the rest comes as frames.
_FIRST: Final = (b'{"code":310,', b'{"code":320,')


class GuardedLane:
    """Hands on what a gate clears."""

    def __init__(self, lane: Lane, gate: Gate) -> None:
        self._lane = lane
        self._cleared = gate.cleared

    def take_first(self, data: bytes, peer: PeerConnection) -> int:
        """Hand on the sends with which a read begins, as far as each is cleared."""
        if not data.startswith(_FIRST, 8):
            return 0
        try:
            frames = scan(data, 0, len(data), peer.max_frame_bytes)
        except FrameError:
            return 0
        count = self._cleared(data, frames, 0, peer, sends_only=True)
        if not count:
            return 0
        end = frames[count - 1][2]
        return self._lane.take_first(data if end == len(data) else data[:end], peer)

    def take_frames(self, buffer: bytes, frames: list[Frame], peer: PeerConnection) -> None:
        """Hand on runs of frames that are cleared, and have the router take the others."""
        left = at = 0
        while at < len(frames):
            stop = self._cleared(buffer, frames, at, peer)
            if stop > at:
                self._leave(buffer, frames[left:at], peer)
                self._lane.take_frames(buffer, frames[at:stop], peer)
                left = stop
            at = stop + 1
        self._leave(buffer, frames[left:], peer)

    def _leave(self, buffer: bytes, frames: list[Frame], peer: PeerConnection) -> None:
        if frames:
            peer.take(buffer, frames)
