"""Who may stand when nobody leads, and who stands first: all from what the coordinator knows."""

from __future__ import annotations

from typing import Final

from rocketpipe.coordination.coordinator import GroupState, Member

#: Each place behind the one who has most of the log waits so long before it stands.
RANK_MS: Final = 100
#: Whom a leader named when it resigned has so long for itself.
NAMED_FIRST_MS: Final = 1_000
#: A coordinator that has forgotten a group is given so long to hear of all who are there.
FORGOTTEN_MS: Final = 3_000


def why_not_stand(
    state: GroupState, me: int, were_in_sync: frozenset[int], *, anyway: bool = False
) -> str | None:
    """Why a replica may not stand; None if it may.

    ``were_in_sync`` is the last set that this replica has seen, for a coordinator that has none;
    ``anyway`` the operator's word that what was lost may be lost.
    """
    if anyway or state.next_epoch == 1:
        return None  # at first, nothing was ever acknowledged in this group
    in_sync = were_in_sync if state.is_forgotten else state.in_sync
    if me not in in_sync and (in_sync or state.epoch):
        return f"in sync are {sorted(in_sync)}"
    if me not in state.candidates:
        return "its machine crashed, and what was acknowledged may be gone here"
    return None


def turn_ms(state: GroupState, me: Member, were_in_sync: frozenset[int]) -> int:
    """How long to wait, so that who has room, and most of the log, stands first."""
    if state.successor == me.id:
        return 0
    ahead = sum(state.has_more(each, me) for each in state.candidates - {me.id})
    all_here = were_in_sync and were_in_sync <= state.members.keys()
    if state.is_forgotten and not all_here:
        return FORGOTTEN_MS * (1 + ahead)
    return RANK_MS * ahead + (NAMED_FIRST_MS if state.successor in state.candidates else 0)
