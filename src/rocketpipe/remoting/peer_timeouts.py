"""How long a peer may take, and which of them took too long.

    first frame   must be whole soon after the connection was made
    any frame     must arrive faster than a trickle, once it has begun
    answers       must be taken, once they fill the buffer
    silence       may last until nobody can be there any more

A peer's state is looked at from time to time and compared with the last look: reading and writing
know nothing of it, and pay nothing for it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakKeyDictionary


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerTimeouts:
    """The limits, in milliseconds of the server's clock."""

    look_every_ms: int = 1000
    first_frame_ms: int = 10_000
    #: From then on a frame that has begun must come at ``least_bytes_s``.
    frame_ms: int = 30_000
    least_bytes_s: int = 4096
    slow_reader_ms: int = 60_000
    #: As RocketMQ's servers do.
    silence_ms: int = 120_000


class WatchedPeer(Protocol):
    """What a peer shows of itself."""

    reads: int
    frames: int

    @property
    def is_slow(self) -> bool: ...

    @property
    def answering(self) -> Collection[object]: ...

    @property
    def buffered_bytes(self) -> int: ...


@dataclass(slots=True)
class _Seen:
    reads: int
    frames: int
    since_ms: int
    #: Since when nothing was read, a frame is not whole, answers are not taken.
    silent_ms: int
    begun_ms: int | None = None
    slow_ms: int | None = None


class Watch:
    """Remembers the last look at each peer."""

    def __init__(self, patience: PeerTimeouts) -> None:
        self._patience = patience
        self.every_ms = patience.look_every_ms
        self._seen: WeakKeyDictionary[WatchedPeer, _Seen] = WeakKeyDictionary()

    def overdue(self, peer: WatchedPeer, now_ms: int) -> str | None:
        """Why the peer should go, if it should."""
        seen = self._seen.get(peer)
        if seen is None:
            seen = self._seen[peer] = _Seen(peer.reads, peer.frames, now_ms, now_ms)
        return (
            self._slow(peer, seen, now_ms)
            or self._unfinished(peer, seen, now_ms)
            or self._silent(peer, seen, now_ms)
        )

    def _slow(self, peer: WatchedPeer, seen: _Seen, now_ms: int) -> str | None:
        if not peer.is_slow:
            seen.slow_ms = None
            return None
        if seen.slow_ms is None:
            seen.slow_ms = now_ms
        waited_ms = now_ms - seen.slow_ms
        if waited_ms < self._patience.slow_reader_ms:
            return None
        return f"it did not take its answers for {waited_ms} ms"

    def _unfinished(self, peer: WatchedPeer, seen: _Seen, now_ms: int) -> str | None:
        limits = self._patience
        if not peer.frames:
            waited_ms = now_ms - seen.since_ms
            if waited_ms < limits.first_frame_ms:
                return None
            return f"it sent no request within {waited_ms} ms"
        if not peer.buffered_bytes or peer.is_slow:
            seen.begun_ms = None
        elif seen.begun_ms is None or peer.frames != seen.frames:
            seen.begun_ms = now_ms
        else:
            waited_ms = now_ms - seen.begun_ms
            enough = waited_ms * limits.least_bytes_s // 1000
            if waited_ms >= limits.frame_ms and peer.buffered_bytes < enough:
                return f"{peer.buffered_bytes} bytes of a request within {waited_ms} ms"
        return None

    def _silent(self, peer: WatchedPeer, seen: _Seen, now_ms: int) -> str | None:
        if peer.reads != seen.reads or peer.answering:
            seen.reads, seen.frames = peer.reads, peer.frames
            seen.silent_ms = now_ms
            return None
        silent_ms = now_ms - seen.silent_ms
        if silent_ms < self._patience.silence_ms:
            return None
        return f"it was silent for {silent_ms} ms"
