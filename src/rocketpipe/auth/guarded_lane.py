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
        self._clears = gate.clears

    def take_first(self, data: bytes, peer: PeerConnection) -> int:
        """Hand on the sends with which a read begins, as far as each is cleared."""
        if not data.startswith(_FIRST, 8):
            return 0
        try:
            frames = scan(data, 0, len(data), peer.max_frame_bytes)
        except FrameError:
            return 0
        clears, end = self._clears, 0
        for frame in frames:
            if not data.startswith(_FIRST, frame[0] + 8) or not clears(data, frame, peer):
                break
            end = frame[2]
        if not end:
            return 0
        return self._lane.take_first(data if end == len(data) else data[:end], peer)

    def take_frames(self, buffer: bytes, frames: list[Frame], peer: PeerConnection) -> None:
        """Hand on runs of frames that are cleared, and have the router take the others."""
        clears = self._clears
        run: list[Frame] = []
        good = True
        for frame in frames:
            if clears(buffer, frame, peer) is not good:
                self._hand_on(buffer, run, good, peer)
                run, good = [], not good
            run.append(frame)
        self._hand_on(buffer, run, good, peer)

    def _hand_on(
        self, buffer: bytes, run: list[Frame], cleared: bool, peer: PeerConnection
    ) -> None:
        if not run:
            return
        if cleared:
            self._lane.take_frames(buffer, run, peer)
        else:
            peer.take(buffer, run)
