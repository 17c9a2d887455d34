"""Follows one leader: connects, takes its log in, and comes again after whatever ends that.

Only what the leader itself cannot mend comes out of `Following.run`: a log that has to be cut or
begun anew while the store is closed, one that is another group's, a store that has failed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from rocketpipe.background import running
from rocketpipe.broker.config.replication import ReplicationConfig
from rocketpipe.broker.replication.challenge import NotProven
from rocketpipe.broker.replication.epochs import EpochTable
from rocketpipe.broker.replication.following.agreement import EpochStale
from rocketpipe.broker.replication.following.incoming import Incoming
from rocketpipe.broker.replication.following.leader_clock import LeaderClock
from rocketpipe.broker.replication.following.proving import Proving
from rocketpipe.broker.replication.frames import Dialect, HaProtocolError
from rocketpipe.broker.replication.joined import JoinedEpoch
from rocketpipe.broker.replication.status import FollowingStatus
from rocketpipe.clock import Clock, in_time
from rocketpipe.errors import ConnectionLost
from rocketpipe.remoting.caller import connected, split_address
from rocketpipe.remoting.log_budget import LogBudget
from rocketpipe.remoting.tls import ClientTls
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.message_store import MessageStore

log = logging.getLogger(__name__)

CONNECT_MS: Final = 5_000
#: How long to wait before the next connection, at first and at most: after a loss, and after a
#: leader that cannot be followed. One that was just elected takes nobody for a moment, and takes no
#: sends before its followers have come.
LOST_FIRST_MS: Final = 50
LOST_WAIT_MS: Final = 5_000
REFUSED_FIRST_MS: Final = 1_000
REFUSED_WAIT_MS: Final = 30_000
#: So often somebody looks whether anything is due, unless the settings ask for more.
_TICK_MS: Final = 500

#: What the network does to a connection, and what makes a leader one that cannot be followed now.
_LOST: Final = (ConnectionLost, OSError)
_REFUSED: Final = (HaProtocolError, EpochStale, DiskError)


class Following:
    """One leader, followed from `run` to `close`.

    A follower of a leader that was not elected says that it is a learner: a set of others that is
    elected is not to wait for it.
    """

    def __init__(
        self,
        store: MessageStore,
        epochs: EpochTable,
        joined: JoinedEpoch,
        clock: Clock,
        config: ReplicationConfig,
        *,
        me: int,
        leader_ha: str,
        dialect: Dialect,
        moved: Callable[[], None],
        elected: bool,
        ours: bool = True,
    ) -> None:
        """Take the log, who led it, whom to follow, and who dispatches when more is confirmed.

        ``ours`` says that the leader writes records as we do; one that is plain need not.
        """
        self._store = store
        self._epochs = epochs
        self._joined = joined
        self._clock = clock
        self._config = config
        self._tls = None if config.tls is None else ClientTls(config.tls)
        self._me = me
        self._leader_ha = leader_ha
        self._dialect = dialect
        self._moved = moved
        self._elected = elected
        self._ours = ours and dialect is not Dialect.PLAIN
        self._leader_clock = LeaderClock(leader_ha, clock)
        self._over = asyncio.Event()
        self._incoming: Incoming | None = None
        self._wait_ms = LOST_FIRST_MS
        self._bytes = 0
        self._refused: str | None = None
        self._said: str | None = None
        self._budget = LogBudget()
        positions = store.positions
        if positions.acknowledged is None:
            # What was shown stays so; what comes is shown when the leader says that it may be.
            positions.begin_acknowledged(positions.confirmed)

    async def run(self) -> None:
        """Follow until `close`.

        Raises:
            CutNeeded: This log went on without the leader; it is to be cut offline.
            BeginAt: The leader's log begins behind this one's end; it is to begin there.
            NothingInCommon: It is another log.
            StoreError: The store has failed, or was closed.
        """
        following = asyncio.ensure_future(self._follow())
        over = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait((following, over), return_when=asyncio.FIRST_COMPLETED)
            if not self._over.is_set():
                following.result()
        finally:
            self.close()
            following.cancel()
            over.cancel()
            await asyncio.wait((following, over))

    def close(self) -> None:
        """Follow no longer, at once: nothing is appended or reported after this returns."""
        self._over.set()
        if self._incoming is not None:
            self._incoming.close()

    def status(self) -> FollowingStatus:
        """How it is getting on."""
        incoming = self._incoming
        greeted = incoming is not None and incoming.greeted
        refused = self._refused
        if incoming is not None and incoming.greeted and incoming.last_read_ms:
            refused = str(incoming.full) if incoming.full is not None else None
        return FollowingStatus(
            master_ha=self._leader_ha,
            connected=greeted,
            last_read_ms=incoming.last_read_ms if incoming is not None else 0,
            last_write_ms=incoming.last_write_ms if incoming is not None else 0,
            bytes=self._bytes + (incoming.taken_bytes if incoming is not None else 0),
            leader_end=incoming.leader_end if incoming is not None else 0,
            confirmed=self._store.positions.confirmed,
            refused=refused,
        )

    async def _follow(self) -> None:
        while True:
            began_ms = self._clock.monotonic_ms()
            incoming = self._incoming = Incoming(
                self._store,
                self._epochs,
                self._joined,
                self._clock,
                self._config,
                me=self._me,
                address=self._leader_ha,
                dialect=self._dialect,
                learner=not self._elected,
                ours=self._ours,
                leader_clock=self._leader_clock,
                moved=self._moved,
            )
            reason = await self._followed(incoming)
            incoming.close()
            if incoming.taken_bytes or self._clock.monotonic_ms() - began_ms >= REFUSED_WAIT_MS:
                self._wait_ms = LOST_FIRST_MS
                self._said = None
            self._bytes += incoming.taken_bytes
            incoming.taken_bytes = 0
            if not isinstance(reason, _LOST + _REFUSED):
                raise reason
            if isinstance(reason, _LOST):
                wait_ms = min(self._wait_ms, LOST_WAIT_MS)
            else:
                wait_ms = min(max(self._wait_ms, REFUSED_FIRST_MS), REFUSED_WAIT_MS)
            self._wait_ms = 2 * wait_ms
            self._tell(reason, wait_ms)
            await self._clock.sleep(wait_ms)

    async def _followed(self, incoming: Incoming) -> Exception:
        """Follow on one connection; gives what ended it."""
        late = ConnectionLost(self._leader_ha, f"no connection within {CONNECT_MS} ms")
        try:
            await in_time(self._clock, CONNECT_MS, self._connected(incoming), lambda: late)
        except (OSError, ConnectionLost, NotProven) as error:
            return error
        async with running(self._keep(incoming), "following"):
            return await incoming.ended

    async def _connected(self, incoming: Incoming) -> None:
        """Connect, and with access control have both sides prove who they are."""
        host, port = split_address(self._leader_ha)
        credentials = self._config.proves_to(host)
        if credentials is None:
            await connected(incoming, host, port, self._tls)
            return
        proving = Proving(incoming, credentials, self._leader_ha)
        try:
            await connected(proving, host, port, self._tls)
            await proving.proven
        except BaseException:
            proving.abort()
            raise

    async def _keep(self, incoming: Incoming) -> None:
        """Look at the time every now and then, for one connection."""
        config = self._config
        every_ms = max(1, min(config.heartbeat_ms // 2, config.silence_ms // 2, _TICK_MS))
        accepted = was_full = False
        while True:
            if incoming.greeted and not accepted:
                accepted = True
                self._refused = None
                log.info(
                    "following leader=%s at=%d", self._leader_ha, self._store.positions.written
                )
            if incoming.full is not None and not was_full and self._budget.allows():
                log.warning(
                    "following waits for room on the disk leader=%s: %s%s",
                    self._leader_ha,
                    incoming.full,
                    self._budget.suppressed(),
                )
            was_full = incoming.full is not None
            await self._clock.sleep(every_ms)
            incoming.tick()

    def _tell(self, reason: Exception, wait_ms: int) -> None:
        """Say once why a leader is not followed, and again when that is another reason."""
        self._refused = str(reason) or type(reason).__name__
        if self._refused != self._said and self._budget.allows():
            self._said = self._refused
            log.warning(
                "cannot follow, trying again leader=%s after_ms=%d: %s%s",
                self._leader_ha,
                wait_ms,
                reason,
                self._budget.suppressed(),
            )
