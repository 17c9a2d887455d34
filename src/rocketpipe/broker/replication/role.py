"""Which role this replica has, as the group's coordinator decides.

    starting ─ joined ─▶ following ⇄ candidate ─ won ─▶ promoting ─▶ leading
                             ▲                              │           │
                             └──────── fenced, session lost, resigned ──┘

What keeps acknowledged records safe is here in three places: a follower closes its connection
before it says where its log ends and stands; only members of the in-sync set stand, by a change
that the set's version guards; who no longer leads says so in one stretch, without an await. All
else (who is quicker, how long somebody waits) is for speed alone.
"""

from __future__ import annotations

import asyncio
import logging
from random import Random
from typing import Final, Literal, NoReturn, Protocol

from rocketpipe.broker.replication.candidacy import RANK_MS, turn_ms, why_not_stand
from rocketpipe.clock import Clock, within
from rocketpipe.coordination.coordinator import (
    Coordinator,
    CoordinatorAway,
    Fenced,
    GroupState,
    Leader,
    Leadership,
    Member,
    NotInSync,
)
from rocketpipe.errors import RocketPipeError

log = logging.getLogger(__name__)

Role = Literal["starting", "following", "candidate", "promoting", "leading"]

#: So long others have to say where their logs end, when a leader is gone.
SETTLE_MS: Final = 30
#: Watches tell of changes; this is how soon one is seen that no watch told.
REREAD_MS: Final = 3_000
#: Between two tries while the coordinator is away, and between two lines that say so.
RETRY_MS: Final = 500
SAY_AWAY_MS: Final = 60_000
#: Who resigned lets others stand first; who failed to lead rests, and twice as long each time.
LET_OTHERS_MS: Final = 2_000
MOST_LET_OTHERS_MS: Final = 60_000
#: How often a set is tried again that changed since it was decided on, though the leader did not.
SET_TRIES: Final = 5


class LeaderPossible(RocketPipeError):
    """A group has a leader, or may have one without losing anything."""


class Duties(Protocol):
    """What a replica does in its roles."""

    def member(self) -> Member:
        """This replica, of this moment; its last epoch is the highest that it has ever joined."""
        ...

    async def follow(self, leader: Leader | None) -> None:
        """Follow this leader, and no other; None: nobody is known, stay idle."""
        ...

    def stop_following(self) -> None:
        """Close the connection at once: nothing is taken in or reported when this returns."""
        ...

    async def lead(self, lead: Leadership) -> None:
        """Begin to lead; comes back when sends are taken. It may be cancelled by a step down."""
        ...

    def step_down(self, reason: str) -> None:
        """Acknowledge nothing from here on, and tell all who wait; also while ``lead`` runs."""
        ...


class RoleKeeper:
    """Joins the group, follows its leader, stands when there is none, leads when it has won."""

    def __init__(
        self,
        coordinator: Coordinator,
        duties: Duties,
        clock: Clock,
        chance: Random,
        *,
        me: int,
    ) -> None:
        self.role: Role = "starting"
        #: Who leads as far as is known, oneself included.
        self.leader: Leader | None = None
        #: The group as it was last seen.
        self.state = GroupState()
        self._coordinator = coordinator
        self._duties = duties
        self._clock = clock
        self._chance = chance
        self._me = me
        #: The operator's word that what is missing here may be lost; it counts for one election.
        self._anyway = False
        self._wake = asyncio.Event()
        #: Those that were in sync when the coordinator last knew any.
        self._were_in_sync: frozenset[int] = frozenset()
        #: Grows with each session that is over; what began in an older one counts for nothing.
        self._session = 0
        self._told: Member | None = None
        #: What the duties were last asked to follow, in a list of its own: nobody is an answer too.
        self._follows: list[Leader | None] = []
        self._lead: Leadership | None = None
        self._promotion: asyncio.Task[None] | None = None
        self._failures = 0
        self._let_others_until_ms = 0
        self._rest_until_ms = 0
        self._to_resign: tuple[Leadership, int | None] | None = None
        self._changing = asyncio.Lock()
        self._said_away_ms: int | None = None

    async def run(self) -> NoReturn:
        """Keep the role until cancelled; then it is put down.

        Raises:
            IdTaken: Another broker is in the group under this replica's id.
        """
        self._coordinator.watch(self._changed, self._lost)
        try:
            while True:
                self._wake.clear()
                try:
                    rest_ms = await self._step()
                    self._said_away_ms = None
                except CoordinatorAway as error:
                    rest_ms = RETRY_MS
                    self._say_away(error)
                    if self._lead is None and self.role != "starting" and not self._follows:
                        await self._end_promotion()
                        await self._follow(None)  # it led or stood, and says what it is now
                except (Fenced, NotInSync) as error:
                    log.info("not elected replica=%d: %s", self._me, error)
                    await self._clock.sleep(RANK_MS)
                    rest_ms = 0
                await self._rest(rest_ms)
        finally:
            if self._lead is not None:
                self._give_up("this broker stops")
            await self._end_promotion()

    async def change_in_sync(self, in_sync: frozenset[int]) -> None:
        """Have another in-sync set, as the leader of this epoch.

        Raises:
            Fenced: This replica leads no longer; it has stepped down by then.
            CoordinatorAway: It is not known whether the set has changed.
        """
        async with self._changing:
            lead = self._lead
            for _ in range(SET_TRIES):
                if lead is None or lead is not self._lead:
                    raise Fenced("this replica does not lead")
                try:
                    self._saw(await self._coordinator.change_in_sync(lead, self.state, in_sync))
                    return
                except Fenced:
                    # Of a set that changed although its answer never came, only a new state tells.
                    state = await self._coordinator.state()
                    if lead is self._lead and self._still_leads(lead, state):
                        self.state = state
            raise CoordinatorAway("the in-sync set changes faster than it can be read")

    async def resign(self, to: int | None = None) -> None:
        """Lead no longer, by one's own will; ``to`` may stand at once.

        Raises:
            Fenced: This replica does not lead.
            CoordinatorAway: It has stepped down, and the others will be told later.
        """
        lead = self._lead
        if lead is None:
            raise Fenced("this replica does not lead")
        self._let_others_until_ms = self._clock.monotonic_ms() + LET_OTHERS_MS
        self._to_resign = (lead, to)
        self._give_up(f"it resigned{'' if to is None else f', naming replica {to}'}")
        await self._tell_resigned()

    async def without_leader(self) -> GroupState:
        """The group, if it has no leader and none of its replicas may be elected as it is.

        Raises:
            LeaderPossible: It has one, or one may be, or another one is to be asked first.
            CoordinatorAway: That cannot be found out.
        """
        state = await self._coordinator.state()
        if (reason := state.needs_no_word(self._me)) is not None:
            raise LeaderPossible(reason)
        return state

    def lead_anyway(self) -> None:
        """Stand at the next look at the group, if `without_leader` still holds then."""
        log.warning("is to lead whatever it lacks, as the operator says replica=%d", self._me)
        self._anyway = True
        self._rest_until_ms = 0
        self._wake.set()

    def look_again(self) -> None:
        """Look at the group now, and tell the others if `Duties.member` says something else."""
        self._wake.set()

    # --- what the coordinator tells ---------------------------------------------------------------

    def _changed(self, state: GroupState) -> None:
        if state.essence != self.state.essence:
            self._wake.set()

    def _lost(self) -> None:
        self._session += 1
        self._told = None
        self._to_resign = None
        if self._lead is not None:
            self._give_up("its session with the coordinator is over")
        self._wake.set()

    # --- one look at the group --------------------------------------------------------------------

    async def _step(self) -> int:
        """Look at the group and do what it asks for; gives how long to rest, if nothing happens."""
        await self._tell_resigned()
        session = self._session
        state = await self._joined_state()
        if session != self._session:
            return 0
        self._saw(state)
        self._anyway = self._anyway and state.needs_no_word(self._me) is None
        if (lead := self._lead) is not None:
            if self._still_leads(lead, state):
                return self._promoted()
            return 0
        await self._end_promotion()
        if state.leader is not None and state.leader.id != self._me:
            await self._follow(state.leader)
            return REREAD_MS + self._chance.randrange(REREAD_MS)
        return await self._without_leader(state)

    async def _joined_state(self) -> GroupState:
        me, told = self._duties.member(), self._told
        # An end that moved is no news: it is told when it counts, before standing.
        if told is None or me.news != told.news:
            return await self._join(me)
        return await self._coordinator.state()

    async def _join(self, me: Member) -> GroupState:
        session = self._session
        state = await self._coordinator.join(me)
        if session == self._session:
            self._told = me
        if self.role == "starting":
            log.info("joined group replica=%d epoch=%d", self._me, state.epoch)
            self.role = "following"
        return state

    def _saw(self, state: GroupState) -> None:
        """Keep what is newest: answers that were asked for one after the other may cross."""
        if (state.epoch_version, state.in_sync_version) >= (
            self.state.epoch_version,
            self.state.in_sync_version,
        ) or self._lead is None:
            self.state = state
        self._were_in_sync = state.in_sync or self._were_in_sync

    async def _follow(self, leader: Leader | None) -> None:
        if self._follows == [leader]:
            return
        self.role = "following"
        self.leader = leader
        self._follows = [leader]
        if leader is not None:
            log.info("following replica=%d leader=%d epoch=%d", self._me, leader.id, leader.epoch)
        try:
            await self._duties.follow(leader)
        except BaseException:
            self._follows.clear()  # it is asked for again
            raise

    # --- standing ---------------------------------------------------------------------------------

    async def _without_leader(self, state: GroupState) -> int:
        if self._me not in state.members:
            self._told = None  # somebody took this replica's record away: it joins again
            return RANK_MS
        why_not = self._why_not_stand(state)
        if why_not is not None:
            if not self._follows:  # it led, or stood: whom it followed then is gone
                await self._follow(None)
            self.leader = None
            log.debug("does not stand replica=%d: %s", self._me, why_not)
            return REREAD_MS // 2
        others = state.candidates - {self._me}
        until_ms = max(self._rest_until_ms, self._let_others_until_ms if others else 0)
        if (wait_ms := until_ms - self._clock.monotonic_ms()) > 0:
            if not self._follows:
                await self._follow(None)
            return wait_ms
        return await self._stand()

    def _why_not_stand(self, state: GroupState) -> str | None:
        return why_not_stand(state, self._me, self._were_in_sync, anyway=self._anyway)

    async def _stand(self) -> int:
        self.role = "candidate"
        self.leader = None
        # Closed first: whatever the old leader still gets acknowledged, it is not by this log.
        self._duties.stop_following()
        self._follows.clear()
        session = self._session
        me = self._duties.member()
        seen = await self._join(me)
        if seen.successor != self._me and seen.candidates - {self._me}:
            await self._clock.sleep(SETTLE_MS)
            seen = await self._coordinator.state()
        turn_from_ms = self._clock.monotonic_ms()
        while not _leads_elsewhere(seen, self._me):
            wait_ms = (
                turn_from_ms + turn_ms(seen, me, self._were_in_sync) - self._clock.monotonic_ms()
            )
            if wait_ms <= 0:
                break
            self._wake.clear()
            await self._rest(wait_ms)
            seen = await self._coordinator.state()
        if session != self._session or self._me not in seen.members:
            return RANK_MS
        self._anyway = self._anyway and seen.needs_no_word(self._me) is None
        if _leads_elsewhere(seen, self._me) or self._why_not_stand(seen) is not None:
            return 0
        if seen.is_forgotten:
            log.warning("coordinator has forgotten this group: stands replica=%d", self._me)
        # The dead leave the set with the election. The first leader is alone in it: whoever else
        # is there may have nothing of its log.
        in_sync = seen.candidates & seen.in_sync | {self._me}
        anyway, self._anyway = self._anyway, False
        lead = await self._coordinator.campaign(seen, in_sync, anyway=anyway)
        if session != self._session:
            return 0  # whatever was won went with its session
        self._won(lead)
        return 0

    # --- leading ----------------------------------------------------------------------------------

    def _won(self, lead: Leadership) -> None:
        log.info(
            "elected replica=%d epoch=%d in_sync=%s",
            self._me,
            lead.leader.epoch,
            sorted(lead.state.in_sync),
        )
        self.role = "promoting"
        self.leader = lead.leader
        self._lead = lead
        self.state = lead.state
        name = f"promotion-{lead.leader.epoch}"
        self._promotion = asyncio.create_task(self._duties.lead(lead), name=name)
        self._promotion.add_done_callback(lambda _: self._wake.set())

    def _promoted(self) -> int:
        """See how far the promotion is; gives how long to rest."""
        promotion = self._promotion
        if promotion is None or not promotion.done():
            return REREAD_MS
        self._promotion = None
        error = promotion.exception() if not promotion.cancelled() else None
        if error is None and not promotion.cancelled():
            self.role = "leading"
            self._failures = 0
            return REREAD_MS
        assert self._lead is not None
        log.error("cannot lead replica=%d, lets others stand", self._me, exc_info=error)
        rest_ms = min(LET_OTHERS_MS << self._failures, MOST_LET_OTHERS_MS)
        self._rest_until_ms = self._clock.monotonic_ms() + rest_ms
        self._failures = min(self._failures + 1, 10)
        self._to_resign = (self._lead, None)
        self._give_up(f"it cannot lead: {error}")
        return 0

    def _still_leads(self, lead: Leadership, state: GroupState) -> bool:
        """Whether the group says so; if not, it has stepped down."""
        if state.leader == lead.leader:
            return True
        if state.leader is not None and state.leader.id != self._me:
            self._give_up(f"replica {state.leader.id} leads in epoch {state.leader.epoch}")
        else:
            self._give_up("the coordinator knows nothing of its leadership")
        return False

    def _give_up(self, reason: str) -> None:
        """Lead no longer, in one stretch."""
        assert self._lead is not None
        epoch = self._lead.leader.epoch
        self._lead = None
        self._duties.step_down(reason)
        self.role = "following"
        self.leader = None
        self._follows.clear()
        if self._promotion is not None:
            self._promotion.cancel()
        self._wake.set()
        log.warning("leads no longer replica=%d epoch=%d: %s", self._me, epoch, reason)

    async def _end_promotion(self) -> None:
        if self._promotion is not None:
            await asyncio.wait([self._promotion])
            if not self._promotion.cancelled() and (error := self._promotion.exception()):
                log.warning("promotion failed replica=%d, in vain: %s", self._me, error)
            self._promotion = None

    async def _tell_resigned(self) -> None:
        if (resigned := self._to_resign) is not None:
            try:
                await self._coordinator.resign(*resigned)
            except Fenced:
                pass  # it is somebody else's already
            if self._to_resign is resigned:
                self._to_resign = None

    # --- waiting ----------------------------------------------------------------------------------

    async def _rest(self, duration_ms: int) -> None:
        if duration_ms > 0 and not self._wake.is_set():
            await within(self._clock, duration_ms, self._wake.wait())

    def _say_away(self, error: CoordinatorAway) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._said_away_ms is None or now_ms - self._said_away_ms >= SAY_AWAY_MS:
            self._said_away_ms = now_ms
            doing = "follows nobody yet" if self.role == "starting" else f"stays {self.role}"
            log.warning(
                "coordinator away replica=%d, which %s, and tries again: %s; does it run, and is "
                "zookeeperAddr right?",
                self._me,
                doing,
                error,
            )


def _leads_elsewhere(state: GroupState, me: int) -> bool:
    return state.leader is not None and state.leader.id != me
