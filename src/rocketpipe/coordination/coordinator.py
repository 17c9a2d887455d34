"""Who leads a group of replicas, and who is in sync with it, as all of them agree.

    epoch       grows with every leader; whatever a leader does carries its own
    leader      who leads now, if anybody does
    in_sync     those without whom nothing is acknowledged; only they may lead next

Every state comes with its versions. A change is made only if nothing has changed since the state
that it was decided on: so a leader that was replaced can change nothing, whatever its clock says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from rocketpipe.errors import RocketPipeError


class CoordinatorAway(RocketPipeError):
    """The coordinator does not answer; nothing is known to have changed."""


class Fenced(RocketPipeError):
    """Somebody else changed the group since the state that this was decided on."""


class NotInSync(RocketPipeError):
    """Who is not in the in-sync set cannot lead."""


class IdTaken(RocketPipeError):
    """Another replica, at another address, is in the group under this id."""

    def __init__(self, id_: int, address: str) -> None:
        super().__init__(
            f"replica id {id_} is taken by {address}, which is alive: two brokers were given one "
            "brokerIdentity, as when a data directory was copied; remove that file from the copy, "
            "and it gets an id of its own"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One replica, as the others see it; there as long as its session lasts."""

    id: int
    #: Where clients reach it, and where followers do.
    address: str
    ha_address: str
    #: Where its log ends, and the epoch of its last entry: who has more stands first.
    log_end: int = 0
    last_epoch: int = 0
    #: False after a machine's crash, where what was acknowledged may be gone: it does not stand.
    clean: bool = True
    #: Whether its disk takes no more: others stand first.
    full: bool = False
    version: str = ""

    @property
    def news(self) -> object:
        """What the others are told when it changes; where its log ends, only before it stands."""
        return (self.clean, self.full, self.address, self.ha_address, self.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """Who leads, in which epoch, and where it is reached."""

    id: int
    epoch: int
    address: str
    ha_address: str

    def is_again(self, before: Leader) -> bool:
        """Whether that was a life before this one: whoever listens there now is this process."""
        return (self.id, self.address) == (before.id, before.address)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A group at one moment, with the versions that a change is guarded by."""

    epoch: int = 0
    leader: Leader | None = None
    in_sync: frozenset[int] = frozenset()
    members: Mapping[int, Member] = field(default_factory=dict)
    #: Whom the last leader named when it resigned: that one may stand at once.
    successor: int | None = None
    epoch_version: int = -1
    in_sync_version: int = -1

    @property
    def next_epoch(self) -> int:
        """Above every epoch that anybody here has seen, even if the coordinator forgot them."""
        return max(self.epoch, *(each.last_epoch for each in self.members.values()), 0) + 1

    @property
    def is_forgotten(self) -> bool:
        """Whether the coordinator knows no epoch of a group that has had some."""
        return self.epoch == 0 and self.next_epoch > 1

    @property
    def candidates(self) -> frozenset[int]:
        """Who may stand: the set's members that are here and lost nothing; at first, all."""
        may = self.in_sync if self.epoch else frozenset(self.members)
        return frozenset(id_ for id_ in may if id_ in self.members and self.members[id_].clean)

    @property
    def with_room(self) -> frozenset[int]:
        """Who may stand, and would take something then."""
        return frozenset(id_ for id_ in self.candidates if not self.members[id_].full)

    def has_more(self, other: int, me: Member) -> bool:
        """Whether another member has room, or more of the log, and so should stand first."""
        it, mine = (
            (not each.full, each.last_epoch, each.log_end, -each.id)
            for each in (self.members[other], me)
        )
        return it > mine

    @property
    def essence(self) -> object:
        """What a replica acts on: ends are told all the time, and by oneself too."""
        clean = {id_: each.clean for id_, each in self.members.items()}
        return (self.epoch, self.leader, self.in_sync, self.successor, clean)

    def needs_no_word(self, me: int) -> str | None:
        """Why no operator has to say that ``me`` may lead though it may lack something."""
        if self.leader is not None:
            return f"replica {self.leader.id} leads, at {self.leader.address}"
        if self.next_epoch == 1:
            return "nothing was ever acknowledged in this group: it elects a leader by itself"
        if self.candidates:
            return f"replica {min(self.candidates)} has all that was acknowledged, and may lead"
        there = sorted(self.in_sync & self.members.keys())
        if there and me not in there:
            return (
                f"replica {there[0]} was in sync until its machine crashed, and so lacks less: "
                "have that one lead"
            )
        return None

    def check_candidate(self, me: int, in_sync: frozenset[int], *, anyway: bool = False) -> None:
        """Whether ``me`` may stand with this set; ``anyway``: it may alone, whatever that loses.

        Raises:
            NotInSync: It is not in the set of now, or the new one has others than that one.
        """
        if anyway and in_sync == {me}:
            return
        # Before the first epoch there is no set, and nothing that could be lost.
        may_lead = self.in_sync if self.epoch else in_sync
        if me not in in_sync or me not in may_lead or in_sync - may_lead:
            raise NotInSync(
                f"replica {me} cannot lead with {sorted(in_sync)}: in sync are {sorted(may_lead)}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """What a replica has won: to lead in one epoch, until it is fenced."""

    leader: Leader
    state: GroupState


class Coordinator(Protocol):
    """What decides. Its errors are `CoordinatorAway`, `Fenced`, `NotInSync` and `IdTaken`.

    After `CoordinatorAway` a change may have been made all the same, and only a new state tells.
    """

    async def join(self, me: Member) -> GroupState:
        """Be seen by the others from now on; joining again tells them what has changed.

        Raises:
            IdTaken: Somebody else is seen under this id, and does not go.
        """
        ...

    async def state(self) -> GroupState:
        """Ask for the state of this moment."""
        ...

    async def campaign(
        self, seen: GroupState, in_sync: frozenset[int], *, anyway: bool = False
    ) -> Leadership:
        """Lead in the next epoch with this set, if nothing has changed since ``seen``.

        A leadership that this very session holds already, unknown to its holder, is replaced; so
        is that of a process that was killed and is started again at the same address. ``anyway``
        is the operator's word: one that is not in the set may lead alone.

        Raises:
            Fenced: Somebody else was quicker, or leads still, or the set has changed.
            NotInSync: This replica is not in the set.
        """
        ...

    async def change_in_sync(
        self, lead: Leadership, seen: GroupState, in_sync: frozenset[int]
    ) -> GroupState:
        """Have another set, if ``lead`` still leads and nothing has changed since ``seen``.

        Raises:
            Fenced: It does not, or something has.
        """
        ...

    async def resign(self, lead: Leadership, to: int | None = None) -> None:
        """Lead no longer; others may stand at once, or let ``to`` stand first."""
        ...

    def watch(self, changed: Callable[[GroupState], None], lost: Callable[[], None]) -> None:
        """Have changes told, on the loop; ``lost`` when the session is over, and all with it.

        A state that is told may be old by then; whoever decides something asks for a new one.
        """
        ...

    async def close(self) -> None:
        """Leave the group."""
        ...
