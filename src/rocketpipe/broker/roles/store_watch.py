"""A leader's eye on its own store: when that takes nothing more, another leads that can.

failed    at once, whoever is in sync
full      after a while without room, an in-sync follower that has some
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Final

from rocketpipe.broker.replication.leading.followers import Followers
from rocketpipe.clock import Clock
from rocketpipe.errors import RocketPipeError
from rocketpipe.store.state.health import Health, StoreState

log = logging.getLogger(__name__)

EVERY_MS: Final = 100
#: How long a leader whose disk is full waits for room.
FULL_MS: Final = 3_000


class StoreWatch:
    """One for each leadership."""

    def __init__(
        self,
        health: Health,
        clock: Clock,
        followers: Followers,
        *,
        with_room: Callable[[], Collection[int]],
        resign: Callable[[int | None], Awaitable[None]] | None,
        stand_aside: Callable[[], Awaitable[None]] | None,
    ) -> None:
        """``with_room`` gives those that may lead, and have room.

        ``resign`` hands over, ``stand_aside`` waits for nobody; None: nobody else could lead.
        """
        self._health = health
        self._clock = clock
        self._followers = followers
        self._with_room = with_room
        self._resign = resign
        self._stand_aside = stand_aside

    async def keep(self) -> None:
        """Look for as long as this broker leads."""
        full_ms = 0
        while True:
            await self._clock.sleep(EVERY_MS)
            full_ms = full_ms + EVERY_MS if self._health.state is StoreState.FULL else 0
            if self._health.failure is not None and self._followers.has_in_sync:
                if await self._failed():
                    return
            elif full_ms >= FULL_MS and await self._full():
                full_ms = 0

    async def _failed(self) -> bool:
        if self._stand_aside is None:
            return False
        log.error("has another lead, as its store has failed reason=%s", self._health.failure)
        with suppress(RocketPipeError):  # then it has stepped down all the same
            await self._stand_aside()
        return True

    async def _full(self) -> bool:
        """Hand over, if there is somebody; whether that was tried."""
        to = self._next()
        if to is None or self._resign is None:
            return False
        log.warning("has replica %d lead, as its disk is full: %s", to, self._health.reason)
        with suppress(RocketPipeError):  # it leads on, and tries again
            await self._resign(to)
        return True

    def _next(self) -> int | None:
        room = self._with_room()
        in_sync = (each.id for each in self._followers.status() if each.in_sync)
        return next((each for each in in_sync if each in room), None)
