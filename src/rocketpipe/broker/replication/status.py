"""How a broker stands in its group, for those who ask: operators, tools and measurements."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from rocketpipe.coordination.coordinator import Leader
from rocketpipe.store.state.positions import Positions

#: As the role keeper calls them.
RoleName = Literal["starting", "following", "candidate", "promoting", "leading"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerStatus:
    """One follower, as its leader sees it."""

    #: None where it does not say: Apache's slaves do not.
    id: int | None
    address: str
    dialect: str
    #: Up to where it has the log, and how many bytes that is behind.
    end: int
    lag: int
    in_sync: bool
    bytes_per_second: int = 0
    transfer_from: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowingStatus:
    """How a follower follows."""

    master_ha: str
    connected: bool
    #: On the wall clock, 0 before the first.
    last_read_ms: int = 0
    last_write_ms: int = 0
    #: How much of the log came since this leader is followed.
    bytes: int = 0
    leader_end: int = 0
    confirmed: int = 0
    #: Why it does not follow, if it was refused or refuses.
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationStatus:
    """A broker in its group, at one moment."""

    role: RoleName
    #: Its id among the replicas: where one is elected, that of the leader is not 0.
    id: int
    #: Whether a coordinator decides who leads.
    elected: bool
    #: Whether sends wait for those in sync.
    waits: bool
    min_in_sync: int
    #: Of its leader, which may be itself; 0 before there is any.
    epoch: int
    leader: Leader | None
    ha_address: str
    log_end: int
    durable: int
    confirmed: int
    #: Those without whom nothing is acknowledged, the leader included; how often that changed.
    in_sync: frozenset[int] = frozenset()
    in_sync_version: int = 0
    #: Where clients reach the replicas that are there, by id, as far as it is known.
    addresses: Mapping[int, str] = field(default_factory=dict)
    followers: tuple[FollowerStatus, ...] = ()
    following: FollowingStatus | None = None
    #: Epochs and where each begins in the log; None where none are kept.
    epochs: tuple[tuple[int, int], ...] | None = None

    @property
    def leads(self) -> bool:
        """Whether it takes sends."""
        return self.role == "leading"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """A replica of a group that has no leader: what it has, and who may have had more."""

    log_end: int
    #: Which wrote the log's end; a newer one may have been joined.
    last_epoch: int
    in_sync: frozenset[int]
    #: Of those in sync, who is there though its machine crashed.
    unclean: frozenset[int]
    #: Who is there and has more of the log.
    ahead: frozenset[int]
    #: In which epoch it leads now; None if it does not.
    epoch: int | None = None


class GroupView:
    """What is known here of the group; one for each broker, and the role fills it in."""

    __slots__ = ("forget", "lead_anyway", "resign", "status")

    def __init__(self, status: Callable[[], ReplicationStatus]) -> None:
        self.status = status
        #: Has another lead, the one of that id if one is named; None where roles are fixed.
        self.resign: Callable[[int | None], Awaitable[None]] | None = None
        #: Keeps nothing any more for a replica that is gone; None where there are none.
        self.forget: Callable[[int], None] | None = None
        #: Says what this replica may lack, and if it is told to, leads all the same.
        self.lead_anyway: Callable[[bool], Awaitable[Lacking]] | None = None


def alone(positions: Positions, address: str) -> ReplicationStatus:
    """A broker without replicas, which leads."""
    return ReplicationStatus(
        role="leading",
        id=0,
        elected=False,
        waits=False,
        min_in_sync=1,
        epoch=0,
        leader=Leader(id=0, epoch=0, address=address, ha_address=""),
        ha_address="",
        log_end=positions.written,
        durable=positions.durable,
        confirmed=positions.confirmed,
        in_sync=frozenset({0}),
        addresses={0: address},
    )
