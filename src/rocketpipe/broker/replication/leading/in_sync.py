"""Who has to have what is sent before it is acknowledged, and who enters and leaves that set.

    fixed roles     connected, not too far and not too long behind: nobody else has to agree
    elected         the coordinator's set; without one of its members nothing is acknowledged

    growing         required here first, then the coordinator is told
    shrinking       the coordinator is told first, then it is required no longer

So at any moment each record that was acknowledged is in the log of everyone who may lead next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NoReturn, Protocol

from rocketpipe.broker.config.replication import ReplicationConfig
from rocketpipe.broker.replication.leading.outgoing import Outgoing
from rocketpipe.clock import Clock, within
from rocketpipe.coordination.coordinator import CoordinatorAway
from rocketpipe.remoting.log_budget import LogBudget
from rocketpipe.store.state.positions import Positions

log = logging.getLogger(__name__)

ChangeInSync = Callable[[frozenset[int]], Awaitable[None]]

_EVERY_MS: Final = 100
_TRY_AGAIN_MS: Final = 500


class InSync(Protocol):
    """The replicas that count."""

    def copies(self) -> int:
        """How many there are, the leader's own included."""
        ...

    def common_end(self) -> int | None:
        """What all of them have; None while one that has to be asked is not there."""
        ...

    def has(self, follower: Outgoing) -> bool:
        """Whether a follower is one of them."""
        ...

    def reported(self, follower: Outgoing, *, first: bool) -> None:
        """Be told of a report."""
        ...

    def lost(self, follower: Outgoing) -> None:
        """Be told that a connection has ended."""
        ...

    def appended(self) -> None:
        """Be told that the log has grown."""
        ...

    async def keep_current(self) -> NoReturn:
        """Have the set follow what the followers do."""
        ...


class FixedSet:
    """Slaves of a master by setting: who is connected, and not behind by too much or for too long.

    One that has stalled would otherwise hold up every send until it is found to be silent.
    """

    def __init__(
        self,
        positions: Positions,
        clock: Clock,
        followers: Iterable[Outgoing],
        config: ReplicationConfig,
        changed: Callable[[], None],
    ) -> None:
        """``changed`` is called from time to time: who falls behind leaves without a word."""
        self._positions = positions
        self._clock = clock
        self._followers = followers
        self._max_gap_bytes = config.max_gap_bytes
        self._max_lag_ms = config.max_lag_ms
        self._changed = changed
        self._end = positions.written
        #: Those that were in sync when somebody last looked.
        self._seen: set[Outgoing] = set()
        self._lines = LogBudget()

    def copies(self) -> int:
        return 1 + sum(map(self.has, self._followers))

    def common_end(self) -> int | None:
        ends = (each.end for each in self._followers if self.has(each))
        return min(ends, default=self._positions.written)

    def has(self, follower: Outgoing) -> bool:
        behind = self._positions.written - follower.end
        if not follower.counts or behind >= self._max_gap_bytes:
            return False
        return not behind or self._late_ms(follower) < self._max_lag_ms

    def _late_ms(self, follower: Outgoing) -> int:
        return self._clock.monotonic_ms() - follower.pursuit.caught_up_ms

    def appended(self) -> None:
        before, self._end = self._end, self._positions.written
        for follower in self._followers:
            follower.log_grew(before)

    def reported(self, follower: Outgoing, *, first: bool) -> None:
        follower.caught_up()

    def lost(self, follower: Outgoing) -> None:
        self._seen.discard(follower)

    async def keep_current(self) -> NoReturn:
        while True:
            await self._clock.sleep(_EVERY_MS)
            self._tell()
            self._changed()

    def _tell(self) -> None:
        """Say who has fallen behind, and who has caught up."""
        now = set(filter(self.has, self._followers))
        for follower in self._seen ^ now:
            if self._lines.allows():
                fell = follower not in now
                log.log(
                    logging.WARNING if fell else logging.INFO,
                    "slave %s peer=%s id=%s behind=%d late_ms=%d%s",
                    "has fallen behind, and is not waited for" if fell else "is in sync",
                    follower.address,
                    follower.id,
                    self._positions.written - follower.end,
                    self._late_ms(follower),
                    self._lines.suppressed(),
                )
        self._seen = now


class ElectedSet:
    """The coordinator's set, as this leader may count on it: what is pending counts in full."""

    def __init__(
        self,
        positions: Positions,
        clock: Clock,
        connected: Mapping[int, Outgoing],
        config: ReplicationConfig,
        changed: Callable[[], None],
        *,
        me: int,
        members: frozenset[int],
        change: ChangeInSync,
        knows: Callable[[int], bool] | None = None,
    ) -> None:
        """``changed`` is called when a member was taken out: others may have had more.

        ``knows`` says whether the coordinator sees a replica, where there is one.
        """
        self._positions = positions
        self._clock = clock
        self._connected = connected
        self._max_lag_ms = config.max_lag_ms
        self._changed = changed
        self._me = me
        self._change = change
        self._knows = knows
        #: Those that the coordinator is known to have, and those that it may have.
        self.members = members
        self.pending: frozenset[int] = frozenset()
        #: When each had last all that there was; those of the start are given some time.
        self._caught_up_ms = dict.fromkeys(members, clock.monotonic_ms())
        #: The most that each has reported in this epoch, over all of its connections.
        self._most: dict[int, int] = {}
        #: Those that once had more than now.
        self._lost_data: set[int] = set()
        self._end = self._inherited = positions.written
        self._news = asyncio.Event()
        self._lines = LogBudget()
        self._over = False

    def end(self) -> None:
        """Change nothing any more: this broker leads no longer."""
        self._over = True

    def copies(self) -> int:
        return len(self.members)

    def common_end(self) -> int | None:
        lowest: int = self._positions.written
        for each in self._required():
            follower = self._connected.get(each)
            if follower is None or follower.end < 0:
                return None
            lowest = min(lowest, follower.end)
        return lowest

    def has(self, follower: Outgoing) -> bool:
        return follower.id in self.members and self._connected.get(follower.id) is follower

    def _required(self) -> frozenset[int]:
        return (self.members | self.pending) - {self._me}

    # What happens

    def appended(self) -> None:
        before, self._end = self._end, self._positions.written
        for each, follower in self._connected.items():
            if follower.end >= before:
                follower.log_grew(before)
                self._caught_up_ms[each] = follower.pursuit.caught_up_ms

    def reported(self, follower: Outgoing, *, first: bool) -> None:
        each = follower.id
        if each is None:
            return
        if first:
            had = self._most.get(each, 0)
            if each in self.members and self._positions.acknowledged is not None:
                had = max(had, self._positions.acknowledged)
            if follower.end < had:
                self._lost_data.add(each)
                log.warning(
                    "replica has lost what it had, and leaves the in-sync set id=%s had=%s has=%s",
                    each,
                    had,
                    follower.end,
                )
        self._most[each] = follower.end
        if follower.caught_up():
            self._caught_up_ms[each] = follower.pursuit.caught_up_ms
        if each in self._lost_data or self._may_enter(each, follower):
            self._news.set()

    def lost(self, follower: Outgoing) -> None:
        each = follower.id
        if each is None:
            return
        if each not in self._required():
            # Nothing was counted on it; and ids that anybody may have made up are not collected.
            self._most.pop(each, None)
            self._caught_up_ms.pop(each, None)
        elif follower.end >= self._positions.written:
            self._caught_up_ms[each] = self._clock.monotonic_ms()

    # Who enters and leaves

    def _may_enter(self, each: int, follower: Outgoing) -> bool:
        """Whether a follower has all that was acknowledged, and keeps up with what comes."""
        if each in self.members | self.pending or each in self._lost_data or follower.learner:
            return False
        acknowledged = self._positions.acknowledged
        # What the leaders before acknowledged is not known, but it is all in what was inherited.
        if follower.end < max(self._inherited, acknowledged or 0):
            return False
        return follower.end >= 0 and not self._lags(each)

    def _lags(self, each: int) -> bool:
        """Whether a replica did not have all that there was for too long."""
        follower = self._connected.get(each)
        if follower is not None and follower.end >= self._positions.written:
            return False
        since_ms = self._caught_up_ms.get(each)
        return since_ms is None or self._clock.monotonic_ms() - since_ms >= self._max_lag_ms

    def _is_gone(self, each: int) -> bool:
        """Whether a replica is neither connected nor seen by the coordinator: it ended."""
        if each in self._connected or self._knows is None:
            return False
        return not self._knows(each)

    async def keep_current(self) -> NoReturn:
        """Take in who has caught up, and take out who does not keep up.

        Raises:
            Fenced: Somebody else has changed the set: this broker leads no longer.
        """
        while True:
            await within(self._clock, _EVERY_MS, self._news.wait())
            self._news.clear()
            if self._over:
                continue
            try:
                await self._shrink()
                await self._grow()
            except CoordinatorAway as error:
                if self._lines.allows():
                    log.warning(
                        "in-sync set stays as it is reason=%s members=%s pending=%s%s",
                        error,
                        sorted(self.members),
                        sorted(self.pending),
                        self._lines.suppressed(),
                    )
                await self._clock.sleep(_TRY_AGAIN_MS)

    async def _shrink(self) -> None:
        leaving = frozenset(
            each
            for each in self._required()
            if each in self._lost_data or self._lags(each) or self._is_gone(each)
        )
        # What was lost by one that is not in the set is sent to it again, and that is all.
        self._lost_data &= leaving
        if not leaving:
            return
        left = self.members - leaving
        # Whether the coordinator has those that are pending is not known: it is told in any case.
        await self._change(left)
        self.members = left
        self.pending -= leaving
        self._lost_data -= leaving
        log.warning("in-sync set has shrunk left=%s members=%s", sorted(leaving), sorted(left))
        self._changed()

    async def _grow(self) -> None:
        entering = self.pending | {
            each for each, follower in self._connected.items() if self._may_enter(each, follower)
        }
        if self._over or not entering:
            return
        self.pending = entering
        grown = self.members | entering
        await self._change(grown)
        self.members = grown
        self.pending -= entering
        log.info("in-sync set has grown new=%s members=%s", sorted(entering), sorted(grown))
