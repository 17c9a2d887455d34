"""The hot path: plain sends and pulls, without a task, a future or a dataclass for each.

    read → frames → send: checked, kept for the end of the turn ─┐
                  → pull: read and answered                      │
                  → of a feature: kept for the end of the turn   │
                  → anything else: left to the router            │
    end of the turn: one append → answers, one write a peer → dispatch

Whatever one read brought is handled as one batch, and what all reads of one turn of the loop
brought is stored together. What is at all unusual is left to the router: the handlers define what
is right, and the fast path does the same for less.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from rocketpipe.broker.fast_path.outbox import Outbox
from rocketpipe.broker.fast_path.pulling import PullFastPath
from rocketpipe.broker.fast_path.sending import SendFastPath
from rocketpipe.broker.fast_path.turn_lane import TurnLane
from rocketpipe.broker.intake.visibility import Visibility
from rocketpipe.protocol.connection import Frame
from rocketpipe.remoting.connection import PeerConnection

#: So many pieces of answers to one peer leave without waiting for the end of the turn, and so much.
MAX_POSTED: Final = 32
MAX_POSTED_BYTES: Final = 1 << 20
#: How frames begin that the fast path may take: all clients but very old ones write the code first.
_SENDS: Final = frozenset({b'{"code":310', b'{"code":10,', b'{"code":320'})
_PULLS: Final = frozenset({b'{"code":11,', b'{"code":361'})
_OTHERS: Final = b'{"code":200'


class FastPath:
    """Sends and pulls: what `PeerConnection` asks first."""

    def __init__(
        self,
        sends: SendFastPath,
        pulls: PullFastPath,
        outgoing: Outbox,
        visibility: Visibility,
        others: Sequence[TurnLane] = (),
    ) -> None:
        """``others`` take requests with the codes of features."""
        self._others = others
        self._sends = sends
        self._pulls = pulls
        self._outgoing = outgoing
        self._visibility = visibility
        self._loop = asyncio.get_running_loop()
        self._scheduled = False
        #: Takes the sends with which a read begins, as `Lane` has it: it is called once a read.
        self.take_first = sends.take_first
        sends.on_begin = self._schedule

    def take_frames(self, buffer: bytes, frames: list[Frame], peer: PeerConnection) -> None:
        """Take what can be done for less, and leave the rest to the router."""
        if peer.is_slow:
            peer.take(buffer, frames)
            return
        rest: list[Frame] = []
        sends, pulls = self._sends, self._pulls
        used = sends.take_plain(buffer, frames[0][0], frames[-1][2], peer)
        for number, frame in enumerate(frames, 1):
            if frame[0] < used:
                continue
            start = buffer[frame[0] + 8 : frame[0] + 19]
            if start in _SENDS:
                taken = sends.take(buffer, frame, peer)
            elif start in _PULLS:
                taken = pulls.take(buffer, frame, peer)
                if (
                    len(peer.outbox) > MAX_POSTED or peer.posted_bytes > MAX_POSTED_BYTES
                ) and not peer.flush():
                    rest += [frame, *frames[number:]] if not taken else frames[number:]
                    break
            else:
                taken = start == _OTHERS and any(
                    lane.take(buffer, frame, peer) for lane in self._others
                )
            if not taken:
                rest.append(frame)
        if rest:
            # Before the end of the turn is set down: what was asked first is looked at first.
            peer.take(buffer, rest)
        if len(rest) < len(frames):
            self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._end_turn)

    async def finish(self) -> None:
        """Answer everything that was taken."""
        await self._sends.finish()
        for lane in self._others:
            await lane.finish()
        self._outgoing.flush()

    def _end_turn(self) -> None:
        self._scheduled = False
        stored = self._sends.end_turn()
        for lane in self._others:
            lane.end_turn()
        self._outgoing.flush()
        if stored:
            self._visibility.dispatch()
