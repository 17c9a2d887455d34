"""How much all peers together may make us hold: answers they do not take, requests not yet whole.

What one peer may is in ``ConnectionLimits``; a thousand of them would be too much all the same. So
each kind has a total, which is looked at whenever a sixteenth of it was added:

    above a half     peers with more than their share of unsent answers get no more until they have
                     taken most of it: they are answered later, and the others as before
    near the limit   the peer goes that has moved least lately: that took nothing of its answers, or
                     whose request has been begun for longest. It is told nothing, as it reads
                     nothing; a client connects again. Until its bytes are gone, a turn of the
                     loop or two, nobody is answered.

Nobody who reads and writes at all is sent away while there is somebody who does not.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, Self

from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger(__name__)

#: Where nobody set a limit: the least of this and a sixteenth of the memory there is.
MOST_BYTES: Final = 256 << 20
LEAST_BYTES: Final = 16 << 20
_OF_MEMORY: Final = 16
_UNLIMITED_BYTES: Final = 1 << 62
#: A limit is looked at whenever one part of so many was added.
_LOOKS: Final = 16
#: A peer is never asked to take more than all but this before it gets more.
LEAST_SHARE_BYTES: Final = 64 << 10

_ended = LogBudget()


class Holder(Protocol):
    """A peer, as far as bytes are held for it."""

    address: str
    given_bytes: int
    frames: int

    @property
    def unsent_bytes(self) -> int: ...

    @property
    def taken_bytes(self) -> int: ...

    @property
    def buffered_bytes(self) -> int: ...

    def hold_back(self, most_bytes: int) -> None: ...

    def abort(self) -> None: ...


class Total:
    """What is held for all peers of one kind of bytes."""

    def __init__(
        self,
        limit_bytes: int,
        what: str,
        size_of: Callable[[Holder], int],
        moved_to: Callable[[Holder], int],
        hold_back: Callable[[Holder, int], None] | None = None,
    ) -> None:
        """``moved_to`` gives another value when a peer has moved on by itself."""
        self._limit = limit_bytes
        self._what = what
        self._size_of = size_of
        self._moved_to = moved_to
        self._hold_back = hold_back
        #: Where each peer was at the last look; who has not moved for longest stands first.
        self._peers: dict[Holder, int] = {}
        #: What is held for those who were sent away, until they are gone.
        self._leaving: dict[Holder, int] = {}
        self._step = max(1, limit_bytes // _LOOKS)
        self._added = 0
        #: There while there is no room at all.
        self._full: asyncio.Future[None] | None = None
        #: Whether nothing more should be held until somebody who was sent away is gone.
        self.is_full = False

    @classmethod
    def unlimited(cls) -> Self:
        """One that never has enough; nobody joins it."""
        return cls(_UNLIMITED_BYTES, "anything", lambda _: 0, lambda _: 0)

    def join(self, peer: Holder) -> None:
        self._peers[peer] = self._moved_to(peer)

    def leave(self, peer: Holder) -> None:
        self._peers.pop(peer, None)
        if self._leaving.pop(peer, None) is not None and self._full is not None:
            self._look()

    async def has_room(self) -> None:
        """Return when this is not full any more."""
        while self._full is not None:
            await asyncio.shield(self._full)

    def grew(self, size: int) -> None:
        """Note that so much more is held; every now and then this looks at everybody."""
        self._added += size
        if self._added >= self._step:
            self._added = 0
            self._look()

    def _look(self) -> None:
        sizes: dict[Holder, int] = {}
        for peer, before in list(self._peers.items()):
            now = self._moved_to(peer)
            size = self._size_of(peer)
            if now != before or not size:
                del self._peers[peer]
                self._peers[peer] = now
            if size:
                sizes[peer] = size
        total = sum(sizes.values())
        leaving = sum(self._leaving.values())
        if total > self._limit // 2 and self._hold_back is not None:
            share = max(LEAST_SHARE_BYTES, self._limit // 2 // len(sizes))
            for peer, size in sizes.items():
                if size > share:
                    self._hold_back(peer, share)
        for peer in list(self._peers):
            if total <= self._limit - self._step:
                break
            if size := sizes.get(peer, 0):
                total -= size
                leaving += size
                self._send_away(peer, size)
        if total + leaving <= self._limit - self._step or not leaving:
            self._open()
        elif self._full is None:
            self._full = asyncio.get_running_loop().create_future()
            self.is_full = True

    def _open(self) -> None:
        if self._full is not None:
            self._full.set_result(None)
            self._full = None
            self.is_full = False

    def _send_away(self, peer: Holder, size: int) -> None:
        if _ended.allows():
            log.warning(
                "connection ended peer=%s reason=%d bytes of %s, all peers have more than %d, and "
                "none has moved less%s",
                peer.address,
                size,
                self._what,
                self._limit,
                _ended.suppressed(),
            )
        del self._peers[peer]
        self._leaving[peer] = size
        peer.abort()


class Buffers:
    """Both totals of the ports that share them."""

    def __init__(self, *, unsent_bytes: int = 0, unfinished_bytes: int = 0) -> None:
        """Limit what is unsent, and what is unfinished; 0 for what the memory suggests."""
        self.unsent = Total(
            unsent_bytes or suggested_bytes(),
            "answers that it does not take",
            lambda peer: peer.unsent_bytes,
            lambda peer: peer.taken_bytes,
            lambda peer, most: peer.hold_back(most),
        )
        self.unfinished = Total(
            unfinished_bytes or suggested_bytes(),
            "a request that is not whole",
            lambda peer: peer.buffered_bytes,
            lambda peer: peer.frames,
        )

    def join(self, peer: Holder) -> None:
        self.unsent.join(peer)
        self.unfinished.join(peer)

    def leave(self, peer: Holder) -> None:
        self.unsent.leave(peer)
        self.unfinished.leave(peer)


def suggested_bytes() -> int:
    """A limit that the memory of this machine, or of its container, allows."""
    return max(LEAST_BYTES, min(MOST_BYTES, _memory_bytes() // _OF_MEMORY))


def _memory_bytes() -> int:
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        memory = MOST_BYTES * _OF_MEMORY
    try:
        allowed = int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
    except (OSError, ValueError):  # not in a container, or it says "max"
        return memory
    return min(memory, allowed)
