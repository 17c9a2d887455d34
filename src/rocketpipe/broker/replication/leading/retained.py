"""What followers have yet to get is not removed, while they are here or were lately."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from rocketpipe.broker.replication.leading.outgoing import Outgoing
from rocketpipe.clock import Clock
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.upkeep.retention import Pin

#: Keeps the log from an offset on, for an owner that a warning may name.
Hold = Callable[[LogOffset, str], Pin]

#: Those that have left and still hold something; of more, the first to leave lets go.
MAX_ABSENT: Final = 16
_EVERY_MS: Final = 1000


class Retained:
    """One pin for each follower; replicas with an id keep theirs over their connections."""

    def __init__(self, clock: Clock, hold: Hold, retain_ms: int) -> None:
        self._clock = clock
        self._hold = hold
        self._retain_ms = retain_ms
        self._pins: dict[int | Outgoing, Pin] = {}
        #: When each that is not here has left, the first to leave first.
        self._left_ms: dict[int | Outgoing, int] = {}

    def needs(self, follower: Outgoing, offset: int) -> None:
        """Keep the log from there on for a follower that is here."""
        key = _key(follower)
        self._left_ms.pop(key, None)
        pin = self._pins.get(key)
        if pin is not None and pin.offset <= offset:
            pin.move(LogOffset(offset))
            return
        if pin is not None:
            pin.release()
        name = follower.address if follower.id is None else str(follower.id)
        self._pins[key] = self._hold(LogOffset(offset), f"replica {name}")

    def left(self, follower: Outgoing) -> None:
        """Keep it for some time more: the follower is gone, and may come again."""
        key = _key(follower)
        if key in self._pins:
            self._left_ms[key] = self._clock.monotonic_ms()
        while len(self._left_ms) > MAX_ABSENT:
            self._let_go(next(iter(self._left_ms)))

    def forget(self, replica_id: int) -> None:
        """Keep nothing for a replica that has left."""
        if replica_id in self._left_ms:
            self._let_go(replica_id)

    def release(self) -> None:
        """Keep nothing."""
        for key in list(self._pins):
            self._let_go(key)

    def _let_go(self, key: int | Outgoing) -> None:
        self._left_ms.pop(key, None)
        self._pins.pop(key).release()

    async def keep(self) -> NoReturn:
        """Let go of what nobody has come for."""
        while True:
            await self._clock.sleep(_EVERY_MS)
            now_ms = self._clock.monotonic_ms()
            for key, left_ms in list(self._left_ms.items()):
                if now_ms - left_ms >= self._retain_ms:
                    self._let_go(key)


def _key(follower: Outgoing) -> int | Outgoing:
    return follower if follower.id is None else follower.id
