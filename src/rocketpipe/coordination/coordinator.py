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
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """Who leads, in which epoch, and where it is reached."""

    id: int
    epoch: int
    address: str
    ha_address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A group at one moment, with the versions that a change is guarded by."""

    epoch: int = 0
    leader: Leader | None = None
    in_sync: frozenset[int] = frozenset()
    members: Mapping[int, Member] = field(default_factory=dict)
    epoch_version: int = -1
    in_sync_version: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """What a replica has won: to lead in one epoch, until it is fenced."""

    leader: Leader
    state: GroupState


class Coordinator(Protocol):
    """What decides. Its errors are `CoordinatorAway`, `Fenced` and `NotInSync`."""

    async def join(self, me: Member) -> GroupState:
        """Be seen by the others from now on; joining again tells them what has changed."""
        ...

    async def state(self) -> GroupState:
        """Ask for the state of this moment."""
        ...

    async def campaign(self, seen: GroupState, in_sync: frozenset[int]) -> Leadership:
        """Lead in the next epoch with this set, if nothing has changed since ``seen``.

        Raises:
            Fenced: Somebody else was quicker, or the set has changed.
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

    async def resign(self, lead: Leadership) -> None:
        """Lead no longer; others may stand at once."""
        ...

    def watch(self, changed: Callable[[GroupState], None], lost: Callable[[], None]) -> None:
        """Have changes told, on the loop; ``lost`` when the session is over, and all with it."""
        ...

    async def close(self) -> None:
        """Leave the group."""
        ...
