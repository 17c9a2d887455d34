"""A replica's time as leader, in one epoch: from its promotion until its role is taken down."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Set
from contextlib import AsyncExitStack, suppress
from typing import Final

from rocketpipe.background import running
from rocketpipe.broker.config.replication import ReplicationConfig
from rocketpipe.broker.core import Loop
from rocketpipe.broker.delivery.slave_reads import SlaveReads
from rocketpipe.broker.replication.leading.followers import Followers
from rocketpipe.broker.replication.own_damage import OwnDamage
from rocketpipe.broker.roles.duties import Role, background, role
from rocketpipe.broker.roles.run import Run
from rocketpipe.broker.roles.store_watch import StoreWatch
from rocketpipe.broker.roles.switchboard import Switchboard
from rocketpipe.clock import Clock
from rocketpipe.coordination.coordinator import CoordinatorAway, Fenced, Leadership, NotInSync
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.offsets import LogOffset

log = logging.getLogger(__name__)

#: How often a new leader looks whether what it inherited shows.
SHOWS_EVERY_MS: Final = 5
#: How often a leader looks whether its store still takes anything.
STORE_EVERY_MS: Final = 100
#: How long a planned switch waits for a follower that has everything.
CATCH_UP_MS: Final = 5_000
CATCH_UP_EVERY_MS: Final = 10


class LeadershipLost(RocketPipeError):
    """Somebody else leads, or may, before this broker had begun to."""


class Tenure:
    """One leadership, in one run of the store."""

    def __init__(
        self,
        lead: Leadership,
        run: Run,
        board: Switchboard,
        replication: ReplicationConfig,
        clock: Clock,
        *,
        holds: Callable[[], bool],
        change_in_sync: Callable[[frozenset[int]], Awaitable[None]] | None = None,
        knows: Callable[[int], bool] | None = None,
        stand_aside: Callable[[], Awaitable[None]] | None = None,
        resign: Callable[[int | None], Awaitable[None]] | None = None,
        others: Callable[[], Set[int]] = frozenset,
        with_room: Callable[[], Collection[int]] = tuple,
        damage: OwnDamage | None = None,
    ) -> None:
        """``holds`` says whether nobody has taken this leadership away yet.

        A coordinator, where there is one, keeps the in-sync set that ``change_in_sync`` changes,
        ``knows`` who is of the group and the ``others`` that may lead, also those ``with_room``,
        and has one of them lead with ``stand_aside``, or in good order with ``resign``. ``damage``
        tells of the own log's.
        """
        self._resign = resign
        self._others = others
        self._with_room = with_room
        self._damage = damage
        self._lead = lead
        self._run = run
        self._board = board
        self._replication = replication
        self._clock = clock
        self._holds = holds
        self._change_in_sync = change_in_sync
        self._knows = knows
        self._stand_aside = stand_aside
        self._tending = AsyncExitStack()
        #: Who follows; None before there is an epoch for them, and at the end.
        self.followers: Followers | None = None
        #: Who takes connections of followers now.
        self.open_to: Followers | None = None

    # Promotion

    async def begin(self) -> None:
        """Begin the epoch, then wait until all that was inherited shows, then serve.

        Behind what it knows to be confirmed, a new leader has records that the last one may have
        acknowledged and shown: to answer anybody before its in-sync set has them too would take
        consumers back, or hand out again what was acknowledged.

        Raises:
            LeadershipLost: This leadership does not hold any more.
            StoreError: The store does not let it.
        """
        run, core, epoch = self._run, self._run.core, self._lead.leader.epoch
        self._board.hold()
        await run.leave("it is about to lead")
        inherited = await self._begin_epoch(epoch)
        self.followers = followers = self._followers(epoch)
        core.standing.followers = followers if self._replication.waits else None
        run.table_log.write_snapshot()
        self._check()
        self.open_to = followers
        await self._tending.enter_async_context(running(_tend(followers), "in-sync replicas"))
        await self._until_shown(inherited)
        slaves = SlaveReads(core.cold, core.tables.groups, self._has_readers)
        await run.enter(role(core, slaves), self._loops)
        self._check()
        run.kept_log.let_go()  # the role holds by now what it needs itself
        if not run.is_clean:  # whatever was lost, this is the log from now on
            run.became_clean()
        core.standing.refusal = None
        core.registrar.stand(0, self._lead.leader.ha_address, epoch)
        log.info(
            "leads epoch=%d end=%d in_sync=%s", epoch, inherited, sorted(self._lead.state.in_sync)
        )
        await core.registrar.register(settle=False)

    def _check(self) -> None:
        if not self._holds():
            raise LeadershipLost("it was replaced before it had begun to lead")

    async def _begin_epoch(self, epoch: int) -> LogOffset:
        """Begin an epoch at the log's end, with the tables that the log tells of; gives that."""
        run, store = self._run, self._run.core.store
        inherited = store.positions.written
        run.joined.join(epoch)
        # Bytes of before there were epochs are of the first one.
        run.epochs.append(epoch, inherited if run.epochs.entries else store.first_offset)
        store.adopt_tail()
        await run.table_log.apply_tail()
        self._begin_acknowledging(inherited)
        return inherited

    def _begin_acknowledging(self, inherited: LogOffset) -> None:
        """Where confirmed begins: what the last leader said, or where nobody else may lead, all."""
        positions = self._run.core.store.positions
        if not self._replication.waits:
            positions.begin_acknowledged(None)
        elif self._replication.elected:
            positions.begin_acknowledged(positions.confirmed)
        else:
            positions.begin_acknowledged(inherited)

    def _followers(self, epoch: int) -> Followers:
        core = self._run.core
        return Followers(
            core.store,
            self._run.epochs,
            self._clock,
            core.settings.now.replication or self._replication,
            me=self._lead.leader.id,
            epoch=epoch,
            in_sync=self._lead.state.in_sync if self._replication.elected else None,
            change_in_sync=self._change_in_sync,
            moved=core.visibility.dispatch,
            hold=core.pins.hold,
            knows=self._knows,
        )

    async def _until_shown(self, inherited: LogOffset) -> None:
        store = self._run.core.store
        self._run.core.visibility.dispatch()
        while store.positions.dispatched < inherited:
            await self._clock.sleep(SHOWS_EVERY_MS)
            self._check()
            if store.health.failure is not None:
                raise store.health.failure

    # While it leads

    def _loops(self, serving: Role) -> Mapping[str, Loop]:
        return {
            **background(self._run.core, serving, leads=True),
            "tables in the log": self._run.table_log.keep_written,
            "its store": self._store_watch().keep,
            "its log": self._mind_log,
        }

    async def _mind_log(self) -> None:
        """Have another lead once the log is found damaged, as soon as one that lost nothing can."""
        if self._resign is None or self._damage is None:
            return
        while True:
            await self._damage.seen()
            if self._others():
                log.error("has another lead, as its log is damaged at=%d", self._damage.first)
                with suppress(CoordinatorAway, Fenced, NotInSync):
                    await self._resign(None)
            await self._clock.sleep(STORE_EVERY_MS)

    def _store_watch(self) -> StoreWatch:
        assert self.followers is not None
        return StoreWatch(
            self._run.core.store.health,
            self._clock,
            self.followers,
            with_room=self._with_room,
            resign=self._resign,
            stand_aside=self._stand_aside,
        )

    def _has_in_sync(self) -> bool:
        return self.followers is not None and self.followers.has_in_sync

    def _has_readers(self) -> bool:
        """Whether a follower is there that clients may read."""
        settings = self._run.core.settings.now.replication or self._replication
        return settings.slave_read and self._has_in_sync()

    async def caught_up(self, wanted: int | None = None) -> int | None:
        """Take no more sends, and wait for a follower that has all; its id, None if none has.

        Sends are taken again where none has; else whoever comes waits for the next role.
        """
        found: int | None = None
        self._board.hold()
        deadline_ms = self._clock.monotonic_ms() + CATCH_UP_MS
        try:
            while self.followers is not None and self._clock.monotonic_ms() < deadline_ms:
                others = self._others() if wanted is None else self._others() & {wanted}
                if not any(each.in_sync and each.id in others for each in self.followers.status()):
                    break
                found = self.followers.caught_up(others)
                if found is not None:
                    break
                await self._clock.sleep(CATCH_UP_EVERY_MS)
        finally:
            if found is None:
                self._board.go_on()
        return found

    # Its end

    def step_down(self, code: int, remark: str) -> None:
        """Acknowledge nothing from this moment on: whoever waits is told so."""
        self.open_to = None
        self._run.kept_log.hold()
        self._run.table_log.step_down()
        if self.followers is not None:
            self.followers.fail(code, remark)

    async def end(self) -> None:
        """Take the role down, once nothing is acknowledged any more."""
        self._run.kept_log.hold()
        await self._run.leave("it does not lead any more")
        self.open_to = None
        await self._tending.aclose()
        # ``standing.followers`` stays: whoever has stored something and comes to ask is told 14.
        if self.followers is not None:
            await self.followers.finish()
            self.followers = None
        positions = self._run.core.store.positions
        positions.begin_acknowledged(positions.confirmed)


async def _tend(followers: Followers) -> None:
    with suppress(Fenced):  # it has stepped down by then
        await followers.keep_current()
